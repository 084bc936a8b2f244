"""After a crash: one history, nothing missing from it, and whoever waits for a reply gets one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from halo_kernel import OPERATOR, Incoming, ModelRequest, Text, Tool, hook
from halo_kernel.inbox import result_of
from halo_kernel.recovery import recover_tree
from halo_kernel.testing import Answer, Hang, Postbox, ScriptedModel, a_session, running_kernel, until


def texts(request: ModelRequest) -> str:
    return " ".join(b.text for message in request.messages for b in message.content if isinstance(b, Text))


class SlowOnce:
    """A plugin whose first answer about a session's tools takes its time."""

    def __init__(self) -> None:
        self.asked = 0

    @hook
    def provide_tools(self) -> list[Tool]:
        self.asked += 1
        if self.asked == 1:
            time.sleep(0.3)
        return []


async def test_messages_that_arrive_during_recovery_stay_in_the_history(tmp_path: Path) -> None:
    """A message that arrives while a crashed session is taken over is shown to every later model call."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        name = session.info.id
        await session.submit(Incoming(text="first"))
        await until(lambda: model.active)
    model, slow = ScriptedModel(), SlowOnce()
    async with running_kernel(tmp_path / "home", model=model, recover=False, extra={"slow": slow}) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace.id, principal=OPERATOR)
        recovery = asyncio.create_task(kernel.recover())
        await until(lambda: slow.asked)
        await session.prompt(Incoming(text="early")).result
        await recovery
        await session.prompt(Incoming(text="late")).result
        seen = texts(model.requests[-1])
        assert all(word in seen for word in ("first", "early", "late", "restarted")), seen
        assert slow.asked == 1, "the history is loaded once"


async def test_a_message_that_was_cut_has_the_result_of_the_turn_that_goes_on(tmp_path: Path) -> None:
    """The same key after the restart waits for that turn and gives its answer, for good; nothing is asked twice."""
    model = ScriptedModel([Hang("half")])
    asked = Incoming(text="how many?", key="k")
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        session.prompt(asked)
        await until(lambda: model.active)
    model = ScriptedModel([Answer("three")])
    where = {"workspace": session.info.workspace, "principal": OPERATOR}
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        for _ in range(2):
            session = await kernel.host.sessions.open(session.info.id, **where)
            result = await asyncio.wait_for(session.prompt(asked).result, 10)
            assert (result.outcome, result.text, result.error) == ("succeeded", "three", "")
        assert len(model.requests) == 1


async def test_a_message_that_nobody_goes_on_with_was_interrupted(tmp_path: Path) -> None:
    """In a tree that is parked after the third crash the result is that of the turn that was cut last."""
    model, asked = ScriptedModel(responder=lambda request: Hang("half")), Incoming(text="how many?", key="k")
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        session.prompt(asked)
        await until(lambda: model.active)
    where = {"workspace": session.info.workspace, "principal": OPERATOR}
    for crash in range(3):
        model = ScriptedModel(responder=lambda request: Hang("half"))
        async with running_kernel(tmp_path / "home", model=model, recover=False) as kernel:
            await kernel.host.workspaces.open(tmp_path / "w")
            seat = kernel.workspaces.seats[session.info.workspace]
            await seat.database.write(lambda tx: tx.one("UPDATE runs SET landed = 0"))  # as after a crash
            await kernel.recover()
            session = await kernel.host.sessions.open(session.info.id, **where)
            if crash < 2:
                await until(lambda model=model: model.active)
                assert not session.prompt(asked).result.done()
                continue
            result = await asyncio.wait_for(session.prompt(asked).result, 10)
            assert (result.outcome, result.text) == ("interrupted", "")


async def test_who_asked_a_child_is_told_that_its_turn_was_cut(tmp_path: Path) -> None:
    """A root is asked to go on and replies then; nobody asks its child, whose routes are told once what happened."""
    model, post = ScriptedModel([Hang(), Hang()]), Postbox()
    async with running_kernel(tmp_path / "home", model=model, extra={"post": post}) as kernel:
        root = await a_session(kernel, tmp_path / "w")
        child = await root.start_child("default")
        for session, route in ((root, "post:a:root"), (child, "post:a:child")):
            await session.submit(Incoming(text="hello", route=route))
        await until(lambda: model.active == 2)
    for _ in range(2):
        model = ScriptedModel([Answer("done")])
        async with running_kernel(tmp_path / "home", model=model, extra={"post": post}) as kernel:
            await kernel.host.workspaces.open(tmp_path / "w")
            await until(lambda: len(post.arrived) >= 2)
            await asyncio.sleep(0.05)
    told = {part.target: part.text for part in post.arrived}
    assert told == {"post:a:root": "done", "post:a:child": "❌ the server stopped in the middle of this turn"}
    assert len(post.arrived) == 2


async def test_who_is_not_asked_to_go_on_was_interrupted(tmp_path: Path) -> None:
    """While a tree is parked, and when the request to go on is withdrawn, a message has the end of its turn."""
    model = ScriptedModel([Hang("half")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        row = (await session.prompt(Incoming(text="how many?")).accepted).row
        await until(lambda: model.active)
    async with running_kernel(tmp_path / "home", recover=False) as kernel:
        await kernel.host.workspaces.open(tmp_path / "w")
        name, database = session.info.id, kernel.workspaces.seats[session.info.workspace].database
        lease = await database.lease(f"tree:{name}")
        await recover_tree(database, lease, name, session="", clock=kernel.clock, boot=kernel.boot)

        async def outcome(change: str) -> str:
            await database.write(lambda tx: tx.one(change))
            found = await database.read(lambda tx: result_of(tx, row))
            return found.outcome if found else "goes on"

        assert await outcome("UPDATE sessions SET parked = 0") == "goes on"
        assert await outcome("UPDATE sessions SET parked = 1") == "interrupted"
        assert await outcome("UPDATE sessions SET parked = 0") == "goes on"
        assert await outcome("UPDATE inbox SET state = 'cancelled' WHERE cause = 'recovery'") == "interrupted"
