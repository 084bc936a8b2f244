"""Halting from odd places: from inside the run, from another process, while a turn waits, and while things close."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import OPERATOR, Call, Incoming, Kernel, Question, Session, Stopping, ToolSpec
from halo_kernel.testing import Calls, Hang, NoteTool, ScriptedModel, VirtualClock, a_session, running_kernel, until


class Halting:
    spec = ToolSpec(name="halt", description="Stop.", parameters={"type": "object"}, effect="write")

    def __init__(self, how: str) -> None:
        self.how = how
        self.took = 0.0

    async def run(self, call: Call) -> str:
        begun = time.monotonic()
        try:
            await getattr(call.session, self.how)()
        finally:
            self.took = time.monotonic() - begun
        return "halted"


@pytest.mark.parametrize("how", ["stop", "archive"])
async def test_a_session_that_halts_itself(tmp_path: Path, how: str) -> None:
    """S17: a tool that halts its own session waits for nothing, the run ends, and `info` says so at once."""
    tool = Halting(how)
    async with running_kernel(tmp_path / "home", model=ScriptedModel([Calls([("halt", {})])]), tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="go")).result
        await until(lambda: session.info.state == "idle")
        assert (session.info.stopped, session.info.archived) == (how == "stop", how == "archive")
        assert tool.took < 1


async def the_session(kernel: Kernel, folder: Path) -> Session:
    workspace = await kernel.host.workspaces.open(folder)
    return await kernel.host.sessions.open("shared", workspace=workspace.id, principal=OPERATOR, create=True)


@pytest.mark.parametrize("how", ["stop", "archive"])
async def test_what_another_process_wants_of_a_session_is_done(tmp_path: Path, how: str) -> None:
    """A stop or an archive from a process that does not hold the session ends the turn where it runs."""
    (tmp_path / "w").mkdir()
    model = ScriptedModel([Hang("half")])
    async with running_kernel(tmp_path / "a", model=model) as first, running_kernel(tmp_path / "b") as second:
        mine, other = await the_session(first, tmp_path / "w"), await the_session(second, tmp_path / "w")
        handle = mine.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        try:
            await getattr(other, how)()
            assert (await asyncio.wait_for(asyncio.shield(handle.result), 5)).outcome == "cancelled"
        finally:
            mine.interrupt()


async def test_what_a_stop_from_elsewhere_keeps_is_remembered(tmp_path: Path) -> None:
    """20: what waited when another process stopped a session is in the next request of the one that holds it."""
    (tmp_path / "w").mkdir()
    model = ScriptedModel([Hang("half")])
    async with running_kernel(tmp_path / "a", model=model) as first, running_kernel(tmp_path / "b") as second:
        mine, other = await the_session(first, tmp_path / "w"), await the_session(second, tmp_path / "w")
        handle = mine.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        await mine.submit(Incoming(text="kept", mode="follow_up"))
        await other.stop()
        assert (await asyncio.wait_for(handle.result, 10)).outcome == "cancelled"
        await mine.prompt(Incoming(text="and now?")).result
        assert "kept" in str(model.requests[-1].messages)


async def test_a_stop_from_elsewhere_ends_no_later_turn(tmp_path: Path) -> None:
    """What was read before the halted turn ended does not reach the turn that began since."""
    (tmp_path / "w").mkdir()
    model = ScriptedModel([Hang("half"), Hang("other half")])
    async with running_kernel(tmp_path / "a", model=model) as first, running_kernel(tmp_path / "b") as second:
        mine, other = await the_session(first, tmp_path / "w"), await the_session(second, tmp_path / "w")
        database: Any = first.workspaces.seats[mine.info.workspace].database
        read, stale, late_looks = database.read, list[Any](), list[int]()

        async def late(fn: Any) -> Any:
            found = await read(fn)
            if getattr(fn, "__name__", "") != "_sessions_with_waiting_rows":
                return found
            if len(model.requests) == 1:
                stale.extend(each for each in found if each[2])
            late_looks.extend([1] if len(model.requests) == 2 else [])
            return stale if len(model.requests) == 2 else found

        database.read = late
        handle = mine.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        await other.stop()
        assert (await asyncio.wait_for(handle.result, 10)).outcome == "cancelled"
        assert stale
        later = mine.prompt(Incoming(text="and now?"))
        await until(lambda: len(model.requests) == 2 and model.active)
        database.notify("inbox")
        await until(lambda: late_looks)
        await asyncio.sleep(0.3)
        assert not later.result.done()
        mine.interrupt()


class Asking:
    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?"))
        return "done"


async def test_a_cancel_ends_a_pause(tmp_path: Path) -> None:
    """S6: the cancel of a message whose turn waits for a person ends that turn, and the question with it."""
    async with running_kernel(
        tmp_path / "home", model=ScriptedModel([Calls([("ask", {})])]), tools=[Asking()]
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await until(lambda: session.info.state == "waiting")
        handle.cancel()
        try:
            assert (await asyncio.wait_for(asyncio.shield(handle.result), 5)).outcome == "cancelled"
            assert not await kernel.host.questions.list(workspace=session.info.workspace, principal=OPERATOR)
        finally:
            session.interrupt()
            await until(lambda: session.info.state == "idle")


async def test_a_cancelled_closer_does_not_kill_the_close(tmp_path: Path) -> None:
    """S10: a caller that is cancelled while it waits for a close does not cut the close."""
    note = NoteTool(wait=lambda call: asyncio.sleep(0.05))
    model = ScriptedModel(responder=lambda request: Calls([("note", {"text": "x"})]))
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        info = session.info
        await session.submit(Incoming(text="go"))
        await until(lambda: note.seen)

        async def closer() -> None:
            await session.close("abort")

        caller = asyncio.create_task(closer())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait({caller})
        again = await asyncio.wait_for(
            asyncio.create_task(kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)), 5
        )
        assert again is not session


async def test_a_kernel_that_closes_opens_nothing(tmp_path: Path) -> None:
    """S18: from the moment on that a kernel closes, nothing is made or opened."""
    note = NoteTool(wait=lambda call: asyncio.sleep(60))
    model = ScriptedModel(responder=lambda request: Calls([("note", {"text": "x"})]))
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: note.seen)
        closing = asyncio.create_task(kernel.close())
        await asyncio.sleep(0.1)
        assert not closing.done()
        with pytest.raises(Stopping):
            await kernel.host.sessions.create(workspace=session.info.workspace, principal=OPERATOR)
        with pytest.raises(Stopping):
            await kernel.host.sessions.open("other", workspace=session.info.workspace, principal=OPERATOR, create=True)
        await closing


async def test_a_workspace_that_is_opened_while_it_closes(tmp_path: Path) -> None:
    """S31: a workspace that is opened while its former life ends waits for that, and works."""
    clock, slow = VirtualClock(), asyncio.Event()
    async with running_kernel(tmp_path / "home", clock=clock) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="one")).result
        info, seats = session.info, kernel.workspaces.seats
        seat = seats[info.workspace]
        seat.scope.push("slow", slow.wait)
        await clock.sleep(301)
        del session

        async def idle() -> None:
            while seats.get(info.workspace) is seat:
                gc.collect()
                await kernel.workspaces.close_idle()
                await asyncio.sleep(0.01)

        closing = asyncio.create_task(idle())
        await until(lambda: info.workspace not in seats)
        opening = asyncio.create_task(kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR))
        await asyncio.sleep(0.05)
        slow.set()
        await closing
        again = await asyncio.wait_for(opening, 5)
        try:
            assert (await asyncio.wait_for(again.prompt(Incoming(text="two")).result, 5)).text == "echo: two"
        finally:
            await again.close("abort")  # type: ignore[attr-defined]
