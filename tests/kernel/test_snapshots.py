"""Snapshots beside a journal: a session goes on from them as if they were not there, and never from a wrong one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from halo_kernel import OPERATOR, CursorGone, Incoming, Kernel, NotFound, Principal, Session, Tx, View
from halo_kernel.folds import VERSION, History
from halo_kernel.journal import EVERY, folded, keep_folds
from halo_kernel.testing import ScriptedModel, a_session, front, journal, running_kernel


async def grow(session: Session, events: int) -> None:
    """Let a journal grow by events that no model is shown."""
    for number in range(events):
        await session.append("note.made", {"text": f"note {number}"})


async def ask(session: Session, text: str) -> None:
    assert (await session.prompt(Incoming(text=text)).result).outcome == "succeeded"


def database(kernel: Kernel, session: Session) -> Any:
    return kernel.workspaces.seats[session.info.workspace].database


async def kept(kernel: Kernel, session: Session) -> dict[str, tuple[int, int, str]]:
    """Return the snapshots of a session: version, event and state by fold."""

    def look(tx: Tx) -> dict[str, tuple[int, int, str]]:
        rows = tx.execute("SELECT fold, version, seq, state FROM snapshots WHERE session = ?", (session.info.id,))
        return {fold: (version, seq, state) for fold, version, seq, state in rows}

    return await database(kernel, session).read(look)


async def snapshot(kernel: Kernel, session: Session) -> dict[str, tuple[int, int, str]]:
    """Return the snapshots once there are some."""
    for _ in range(500):
        if found := await kept(kernel, session):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("no snapshot was kept")


async def view_of(session: Session) -> View:
    view = View()
    for event in await journal(session):
        view.apply(event)
    return view


async def test_a_long_journal_has_a_snapshot_and_a_short_one_none(tmp_path: Path) -> None:
    """The turn that ends behind the 256th event keeps both folds, up to there; no turn before does."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "first")
        await asyncio.sleep(0.05)
        assert await kept(kernel, session) == {}
        await grow(session, EVERY)
        await ask(session, "second")
        found = await snapshot(kernel, session)
        head = len(await journal(session))
        assert {fold: each[:2] for fold, each in found.items()} == {"History": (VERSION, head), "View": (VERSION, head)}
        assert msgspec.json.decode(found["View"][2], type=View) == await view_of(session)
        await ask(session, "third")
        await asyncio.sleep(0.05)
        assert await kept(kernel, session) == found, "the next one is due in another 256 events"


async def test_a_session_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    """After a restart the model is shown all of it, though what stands before the snapshot is not read."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "first")
        await grow(session, EVERY)
        await ask(session, "second")
        await snapshot(kernel, session)
        await ask(session, "third")
        await database(kernel, session).write(lambda tx: tx.execute("UPDATE events SET body = '{}' WHERE seq < 99"))
        name, workspace = session.info.id, session.info.workspace
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        await ask(session, "fourth")
        texts = [block.text for message in model.requests[0].messages for block in message.content]  # type: ignore[union-attr]
        assert texts == ["first", "echo: first", "second", "echo: second", "third", "echo: third", "fourth"]
        view, _ = await kernel.host.sessions.view(name, workspace=workspace, principal=OPERATOR)
        assert [item.text for item in view.items.values() if item.kind == "user"] == [
            "first",
            "second",
            "third",
            "fourth",
        ]


@pytest.mark.parametrize(
    "damage", ["version = version + 1", "state = '{'", "state = '[]'", 'state = \'{"pieces": 1, "title": 1}\'']
)
async def test_a_snapshot_that_cannot_be_used_is_none(tmp_path: Path, damage: str) -> None:
    """One of another version, or damaged, is passed over and made anew at its time."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await grow(session, EVERY)
        await ask(session, "first")
        good = await snapshot(kernel, session)
        opened, name = database(kernel, session), session.info.id
        await opened.write(lambda tx: tx.execute(f"UPDATE snapshots SET {damage}"))
        for fold in (History, View):
            whole = fold()
            for event in await journal(session):
                whole.apply(event)
            assert (await opened.read(lambda tx, fold=fold: folded(tx, name, fold)))[0] == whole
        await grow(session, EVERY)
        await keep_folds(opened, name)
        again = await kept(kernel, session)
        assert again.keys() == good.keys()
        head = len(await journal(session))
        assert [each[:2] for each in again.values()] == [(VERSION, head)] * 2


async def test_the_larger_the_state_the_rarer_it_is_kept(tmp_path: Path) -> None:
    """What is rewritten comes to at most 4 kB an event."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.append("note.made", {"text": "x" * 4_000_000})
        await grow(session, EVERY)
        due = await keep_folds(database(kernel, session), session.info.id)
        head = len(await journal(session))
        size = len((await kept(kernel, session))["View"][2])
        assert due == head + size // 4096 > head + 900


async def test_the_view_is_its_owner_s(tmp_path: Path) -> None:
    """`Sessions.view` is what folding all events gives, with the cursor behind them; a foreign session is not found."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hello")
        where = {"workspace": session.info.workspace}
        view, cursor = await kernel.host.sessions.view(session.info.id, principal=OPERATOR, **where)
        assert view == await view_of(session)
        assert [update async for update in session.events(cursor)] == []
        with pytest.raises(NotFound):
            await kernel.host.sessions.view(session.info.id, principal=Principal(name="other"), **where)


async def renew(kernel: Kernel, session: Session) -> None:
    """Give journals new ids, as in a copy or a restored backup."""
    await database(kernel, session).write(lambda tx: tx.execute("UPDATE sessions SET journal = 'r-' || journal"))


async def test_a_cursor_of_before_a_copy_or_a_restore_gets_a_view(tmp_path: Path) -> None:
    """It is gone, however far it was; the error has what people see, and a cursor that goes on behind that."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hello")
        cursors = [update.cursor async for update in session.events()]
        await renew(kernel, session)
        for cursor in cursors:
            with pytest.raises(CursorGone) as caught:
                await anext(session.events(cursor))
            assert caught.value.view == await view_of(session)
            assert [update async for update in session.events(caught.value.cursor)] == []
        follower = session.events(caught.value.cursor, live=True)
        await session.append("note.made", {"text": "on"})
        update = await anext(follower)
        await follower.aclose()
        assert update.event is not None and update.event.body.text == "on"  # type: ignore[union-attr]


async def test_over_http_a_cursor_that_is_gone_is_410_with_the_view(tmp_path: Path) -> None:
    """The body says what people see and where to go on."""

    async def handler(exchange: Any) -> None:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        await anext(session.events("other.1"))

    from halo_kernel import Route, hook

    class Plugin:
        @hook
        def provide_routes(self) -> list[Route]:
            return [Route(method="GET", path="/api/t", handler=handler, summary="t")]

    async with running_kernel(tmp_path / "home", extra={"t": Plugin()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "hello")
        name, workspace = session.info.id, session.info.workspace
        face = front(kernel)
        transport = httpx.ASGITransport(face.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527", headers=face.headers) as to:
            reply = await to.get("/api/t")
        assert reply.status_code == 410
        told = reply.json()
        assert told["type"] == "CursorGone"
        assert msgspec.convert(told["view"], View) == await view_of(session)
        assert [update async for update in session.events(told["cursor"])] == []
