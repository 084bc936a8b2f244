"""Deleting sessions, what is not kept for ever, and how many sessions a tree may have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from halo_kernel import (
    OPERATOR,
    Call,
    Conflict,
    Database,
    Incoming,
    Kernel,
    NotFound,
    Pointer,
    Principal,
    Question,
    Session,
    SessionClosed,
    SessionSettings,
    ToolSpec,
)
from halo_kernel.sessions.retention import DELETED_MS, KEPT_KEYS, SETTLED_MS, bury, forget_settled
from halo_kernel.testing import Answer, Calls, Hang, Postbox, ScriptedModel, a_session, running_kernel, until


class AskTool:
    """A tool that asks before it does anything."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?"))
        return "fine"


async def delete(kernel: Kernel, session: Session) -> None:
    await kernel.host.sessions.delete(session.info.id, workspace=session.info.workspace, principal=OPERATOR)


def database_of(kernel: Kernel, session: Session) -> Database:
    return kernel.workspaces.seats[session.info.workspace].database


async def count(database: Database, what: str) -> int:
    (found,) = await database.read(lambda tx: tx.one(f"SELECT count(*) FROM {what}")) or (0,)
    return int(found)


async def test_a_deleted_session_is_found_no_more(tmp_path: Path) -> None:
    """S32: a session that was deleted is in no list, is not opened, made, viewed or written to, nor is one below it."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        child = await session.start_child("default")
        which = {"workspace": session.info.workspace, "principal": OPERATOR}
        await delete(kernel, session)
        assert session.info.state == child.info.state == "closed"
        assert await kernel.host.sessions.list(**which) == []  # type: ignore[arg-type]
        for each in (session, child):
            for act in (kernel.host.sessions.open, kernel.host.sessions.view, kernel.host.sessions.delete):
                with pytest.raises(NotFound):
                    await act(each.info.id, **which)  # type: ignore[arg-type, operator]
            with pytest.raises(NotFound):
                await kernel.host.sessions.open(each.info.id, create=True, **which)  # type: ignore[arg-type]
            with pytest.raises(SessionClosed):
                await each.submit(Incoming(text="hello"))


async def test_deleting_ends_what_runs_and_drops_what_waits(tmp_path: Path) -> None:
    """S2: the run of a deleted session ends, what waits is dropped, and no model is asked for it again, also later."""
    home, model = tmp_path / "home", ScriptedModel(responder=lambda request: Hang())
    async with running_kernel(home, model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        behind = session.prompt(Incoming(text="more", mode="follow_up"))
        await behind.accepted
        await delete(kernel, session)
        assert (await running.result).outcome == (await behind.result).outcome == "cancelled"
        assert await count(database_of(kernel, session), "inbox WHERE state = 'dropped'") == 1
        assert await count(database_of(kernel, session), "runs") == 0
    async with running_kernel(home, model=model) as kernel:
        await asyncio.sleep(0.1)
        assert len(model.requests) == 1


async def test_whoever_waits_is_told_that_it_was_deleted(tmp_path: Path) -> None:
    """Routes and the pointer of a deleted session get one last delivery each, which says so."""
    post, model = Postbox(), ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model, extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        pointer = Pointer(dispatcher="post", target="post:caller:1")
        await session.submit(Incoming(text="go", route="post:me:here", reply_to=pointer))
        await until(lambda: model.active)
        await session.submit(Incoming(text="more", route="post:me:there", mode="follow_up"))
        await delete(kernel, session)
        await until(lambda: len(post.arrived) == 3)
        await asyncio.sleep(0.05)
        told = {part.target: part.reason for part in post.arrived}
        assert told.pop("post:caller:1") == "deleted" and told.pop("post:me:there") == "deleted"
        assert set(told) == {"post:me:here"} and len(post.arrived) == 3


async def test_a_parent_is_told_that_a_child_was_deleted(tmp_path: Path) -> None:
    """The work of a child that is deleted is reported as aborted."""
    model = ScriptedModel([Hang(), Answer("read")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        child = await session.start_child("default")
        await child.submit(Incoming(text="work", principal=Principal(name="session:x", kind="agent")))
        await until(lambda: model.active)
        await delete(kernel, child)
        await until(lambda: len(model.requests) == 2)
        assert "[SUB-AGENT ABORTED: the session was deleted]" in str(model.requests[1].messages)


@pytest.mark.parametrize("how", ["waits", "landed"])
async def test_a_turn_that_nobody_runs_is_over_with_its_session(tmp_path: Path, how: str) -> None:
    """A turn that waits for a person, or was put down, ends with the deletion, and its pointer is told."""
    post, model = Postbox(), ScriptedModel([Calls([("ask", {})]) if how == "waits" else Hang()])
    async with running_kernel(tmp_path / "home", model=model, tools=[AskTool()], extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        pointer = Pointer(dispatcher="post", target="post:caller:1")
        await session.submit(Incoming(text="go", reply_to=pointer))
        if how == "waits":
            await until(lambda: session.info.state == "waiting")
        else:
            await until(lambda: model.active)
            await session.close("land")  # type: ignore[attr-defined]
            model.then(Hang())
        await kernel.host.sessions.delete(session.info.id, workspace=session.info.workspace, principal=OPERATOR)
        await until(lambda: post.arrived)
        assert [part.reason for part in post.arrived] == ["deleted"]
        assert await count(database_of(kernel, session), "runs") == 0


async def test_a_foreign_session_is_not_deleted(tmp_path: Path) -> None:
    """Another principal finds nothing to delete or to rename, and nothing changes."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        which = {"workspace": session.info.workspace, "principal": Principal(name="other")}
        with pytest.raises(NotFound):
            await kernel.host.sessions.delete(session.info.id, **which)  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await kernel.host.sessions.rename(session.info.id, title="mine", **which)  # type: ignore[arg-type]
        assert (await session.prompt(Incoming(text="hello")).result).outcome == "succeeded"


# Retention


async def test_a_day_later_nothing_of_it_is_in_the_files(tmp_path: Path) -> None:
    """24 h after its deletion a session's words are in no file of the database; its id and keys stay taken."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        other = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="the secret heron", key="k")).result
        await other.prompt(Incoming(text="the public stork")).result
        await delete(kernel, session)
        database, now = database_of(kernel, session), kernel.clock.now()
        assert await database.write(lambda tx: bury(tx, now=now + DELETED_MS - 1000)) == []
        assert await database.write(lambda tx: bury(tx, now=now + DELETED_MS + 60_000)) == [session.info.id]
        assert await database.write(lambda tx: bury(tx, now=now + 9 * DELETED_MS)) == [], "once"
        await database.scrub()
        found = b"".join(path.read_bytes() for path in (tmp_path / "w" / ".halo").glob("halo.db*") if path.is_file())
        assert b"heron" not in found and b"stork" in found
        assert await count(database, "inbox WHERE key = 'k'") == 1
        with pytest.raises(NotFound):
            await kernel.host.sessions.open(
                session.info.id, workspace=session.info.workspace, principal=OPERATOR, create=True
            )


async def test_what_is_owed_is_sent_before(tmp_path: Path) -> None:
    """A deleted session that still owes a delivery stays until that is settled."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:  # nobody sends to `post`
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go", route="post:me:here"))
        await until(lambda: model.active)
        await delete(kernel, session)
        database, late = database_of(kernel, session), kernel.clock.now() + 9 * DELETED_MS
        assert await database.write(lambda tx: bury(tx, now=late)) == []
        await database.write(lambda tx: tx.one("UPDATE parts SET state = 'failed'"))
        assert await database.write(lambda tx: bury(tx, now=late)) == [session.info.id]
        assert await count(database, "outbox") == await count(database, "parts") == 0


async def test_keys_are_kept_thirty_days_and_the_last_ones_longer(tmp_path: Path) -> None:
    """A key is known for 30 days; of each sender the last 5,000 are known however old, and what waits always is."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hello", key="mine")).result
        database, now = database_of(kernel, session), kernel.clock.now()
        columns = "session, key, at, head, mode, access, principal, principal_kind, text, route, cause, state"
        values = f"'{session.info.id}', 'k' || n, {now}, 0, 'steer', 'full', 'crowd', 'remote', 'x', '', 'message'"
        numbers = f"WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {KEPT_KEYS + 10})"
        state = "CASE n WHEN 1 THEN 'waiting' ELSE 'consumed' END"
        await database.write(
            lambda tx: tx.one(f"INSERT INTO inbox({columns}) {numbers} SELECT {values}, {state} FROM n")
        )
        crowd = "inbox WHERE principal = 'crowd'"
        await database.write(lambda tx: forget_settled(tx, now=now + SETTLED_MS - 60_000))
        assert await count(database, crowd) == KEPT_KEYS + 10
        await database.write(lambda tx: forget_settled(tx, now=now + SETTLED_MS + 60_000))
        assert await count(database, crowd) == KEPT_KEYS + 1
        assert await count(database, f"{crowd} AND key IN ('k1', 'k{KEPT_KEYS + 10}')") == 2
        assert await count(database, "inbox WHERE key = 'mine'") == 1
        await database.write(lambda tx: tx.one("DELETE FROM inbox WHERE principal = 'crowd'"))


# How many


async def _chain(session: Session, depth: int) -> Session:
    for _ in range(depth - 1):
        session = await session.start_child("default")
    return session


async def test_a_tree_is_at_most_so_deep(tmp_path: Path) -> None:
    """8: from depth 16 no session is started, from depth 15 one is."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await _chain(await a_session(kernel, tmp_path / "w"), 15)
        deepest = await session.start_child("default")
        with pytest.raises(Conflict, match=r"Maximum nesting depth \(16\) reached"):
            await deepest.start_child("default")


@pytest.mark.parametrize(
    ("limits", "again"),
    [
        (SessionSettings(max_children=3), "3 sessions"),
        (SessionSettings(max_descendants=3), "3 sessions below its root"),
    ],
)
async def test_a_tree_has_at_most_so_many(tmp_path: Path, limits: SessionSettings, again: str) -> None:
    """The limits hold for many who start at once and after a restart; archiving one makes room for another."""
    home, names = tmp_path / "home", list[str]()

    async def tried(session: Session) -> list[object]:
        return await asyncio.gather(*(session.start_child("default") for _ in range(8)), return_exceptions=True)

    for room in (3, 1):
        async with running_kernel(home) as kernel:
            session = await _open(kernel, names, tmp_path / "w")
            kernel.workspaces.seats[session.info.workspace].limits = limits
            found = await tried(session)
            refused = [error for error in found if isinstance(error, Conflict)]
            assert len(found) - len(refused) == room, "the first time three, then one"
            assert all(again in error.message for error in refused)
            (child, *_) = await session.children()
            await (await _open(kernel, [child.id, session.info.workspace], tmp_path / "w")).archive()


async def _open(kernel: Kernel, names: list[str], folder: Path) -> Session:
    if names:
        return await kernel.host.sessions.open(names[0], workspace=names[1], principal=OPERATOR)
    session = await a_session(kernel, folder)
    names += [session.info.id, session.info.workspace]
    return session


async def test_an_archived_session_starts_none(tmp_path: Path) -> None:
    """Below an archived session nothing is started, whoever still holds it."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.archive()
        with pytest.raises(SessionClosed):
            await session.start_child("default")
