"""What a plugin reads to follow all sessions of a workspace: which of them changed, their events, what is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from halo_kernel import OPERATOR, Incoming, Migration, NotFound, Principal, SessionInfo, Tx, hook
from halo_kernel.testing import a_session, journal, running_kernel

ANNA = Principal(name="anna", kind="person", access="full")


async def test_changed_lists_every_principal_s_sessions_page_by_page(tmp_path: Path) -> None:
    """Sessions of all principals, those below others and archived ones too, come by id, those alone that changed."""
    async with running_kernel(tmp_path / "home") as kernel:
        mine = await a_session(kernel, tmp_path / "w")
        hers = await a_session(kernel, tmp_path / "w", ANNA)
        child = await mine.start_child("default")
        await hers.archive()
        workspace, sessions = mine.info.workspace, kernel.host.sessions
        found = await sessions.changed(workspace=workspace, since=0)
        assert [info.id for info in found] == sorted([mine.info.id, hers.info.id, child.info.id])
        assert {info.id for info in found if info.archived} == {hers.info.id} and not any(i.deleted for i in found)
        (first,) = await sessions.changed(workspace=workspace, since=0, limit=1)
        assert [*await sessions.changed(workspace=workspace, since=0, after=first.id)] == found[1:]
        later = max(info.updated_at for info in found) + 60_000
        assert not await sessions.changed(workspace=workspace, since=later)


async def test_events_are_read_without_opening_the_session(tmp_path: Path) -> None:
    """Events come from behind a number on, at most so many; a foreign session is not found."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hello")).result
        name, workspace, read = session.info.id, session.info.workspace, kernel.host.sessions.events
        found = await read(name, workspace=workspace, principal=OPERATOR, after=1, limit=2)
        assert found == (await journal(session))[1:3]
        with pytest.raises(NotFound):
            await read(name, workspace=workspace, principal=ANNA)


class _Keeper:
    def __init__(self) -> None:
        self.told: list[SessionInfo] = []

    @hook
    async def session_erased(self, session: SessionInfo) -> None:
        self.told.append(session)


async def test_who_keeps_a_copy_is_told_of_what_was_erased(tmp_path: Path) -> None:
    """`session_erased` is over before erasing returns, and its session counts the event that tells of it."""
    keeper = _Keeper()
    async with running_kernel(tmp_path / "home", extra={"keeper": keeper}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hello")).result
        head = session.info.head
        place = {"workspace": session.info.workspace, "principal": OPERATOR}
        event = await kernel.host.sessions.erase(session.info.id, **place, start=2, end=head)
        assert [(info.id, info.head) for info in keeper.told] == [(session.info.id, event.seq)]


def _find(tx: Tx, word: str) -> list[int]:
    return [int(row) for (row,) in tx.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (word,))]


async def test_a_plugin_s_database_has_full_text_search(tmp_path: Path) -> None:
    """What FTS5 asks of SQLite by itself is let through, in functions that write and that read."""
    table = Migration(version=1, sql="CREATE VIRTUAL TABLE texts USING fts5(text)")
    async with running_kernel(tmp_path / "home") as kernel:
        database = await kernel.host.data.open("texts", "global", [table])
        for text in ("one", "two"):
            await database.write(lambda tx, text=text: [*tx.execute("INSERT INTO texts VALUES (?)", (text,))])
        assert await database.read(lambda tx: _find(tx, "two")) == [2]
