"""`continue_task`: interrupted work goes on after the answer to what interrupted it, once, when asked."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

import halo_team
from halo_kernel import Incoming, Mode, Principal, Session, Tool, ToolFinished, Turn, TurnStarted, hook
from halo_kernel.testing import Answer, Calls, Fail, Hang, NoteTool, Step, until
from halo_team.resuming import KICK, RESET

from .conftest import Agents, Desk, bodies, ends, inputs, rest

CONTINUE = Calls([("continue_task", {})])
NOTE = Calls([("note", {"text": "x"})])


class Notes:
    """A plugin with a tool that works until it is let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.tool = NoteTool(wait=lambda call: self.gate.wait())

    @hook
    def provide_tools(self) -> list[Tool]:
        return [self.tool]


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def halo_plugins(agents: Agents, notes: Notes) -> dict[str, object]:
    return {"team": halo_team, "agents": agents, "notes": notes}


async def statuses(session: Session) -> list[str]:
    """Return what `continue_task` answered, oldest first."""
    done = [body for body in await bodies(session) if isinstance(body, ToolFinished) and body.name == "continue_task"]
    return [json.loads(body.text)["status"] for body in done if body.outcome == "ok"]


async def causes(session: Session) -> list[str]:
    """Return why its turns ran."""
    return [body.cause for body in await bodies(session) if isinstance(body, TurnStarted)]


def plan(desk: Desk, *steps: Step) -> Session:
    desk.orders.plans[desk.session.info.id] = list(steps)
    return desk.session


async def interrupt(session: Session, notes: Notes, mode: Mode, text: str = "what time is it?") -> Any:
    """Interrupt what runs, and return how the turn ended that answers."""
    handle = session.prompt(Incoming(text=text, mode=mode))
    await handle.accepted
    notes.gate.set()
    return await handle.result


@pytest.mark.parametrize(("first", "mode"), [(NOTE, "interrupt_soft"), (Hang("half"), "interrupt_hard")])
async def test_work_goes_on_after_the_answer(desk: Desk, notes: Notes, first: Step, mode: Mode) -> None:
    """A turn that began after an interrupt and called continue_task is followed by one that goes on, at its level."""
    session = plan(desk, first, CONTINUE, Answer("it is noon"), CONTINUE, Answer("the work is done"))
    await session.submit(Incoming(text="work"))
    await until(lambda: desk.halo.model.requests)
    await until(lambda: notes.tool.seen or mode == "interrupt_hard")
    result = await interrupt(session, notes, mode)
    assert result.text == "it is noon"
    await rest(session)
    assert await statuses(session) == ["set", "not_interrupted"]  # the turn that goes on cannot ask for another one
    assert await causes(session) == ["message", "message", "continue_task"]
    last = (await inputs(session))[-1]
    assert last.text == KICK and await session.output() == "the work is done"
    assert (await session.state("team")) is None


async def test_an_ordinary_turn_is_not_followed(desk: Desk) -> None:
    """22 `continue_task` in a turn that followed no interrupt answers `not_interrupted`, and no extra turn happens."""
    session = plan(desk, Answer("hi"), CONTINUE, Answer("done"), Fail("refused", "it broke"), CONTINUE, Answer("done"))
    for text in ("one", "two", "three", "four"):
        await session.prompt(Incoming(text=text)).result
    await rest(session)
    assert await statuses(session) == ["not_interrupted"] * 2
    assert await ends(session) == ["succeeded", "succeeded", "failed", "succeeded"]


async def test_escape_does_not_resume(desk: Desk, notes: Notes) -> None:
    """21 Esc after `continue_task` does not resume, neither then nor after the next message, and nothing is said."""
    session = plan(desk, Hang("half"), CONTINUE, Hang("it is"), CONTINUE, Answer("fine"), Answer("ok"))
    await session.submit(Incoming(text="work"))
    await until(lambda: desk.halo.model.active)
    handle = session.prompt(Incoming(text="what time is it?", mode="interrupt_hard"))
    await until(lambda: len(desk.halo.model.requests) == 3 and desk.halo.model.active)
    assert session.interrupt()
    assert (await handle.result).outcome == "cancelled"
    await rest(session)
    assert len(await causes(session)) == 2
    assert (await session.prompt(Incoming(text="how are you?")).result).text == "fine"
    await rest(session)
    assert await statuses(session) == ["set", "not_interrupted"] and await causes(session) == ["message"] * 3
    assert RESET not in (await inputs(session))[-1].content


@pytest.mark.parametrize("how", ["stop", "archive"])
async def test_a_stop_clears_it(desk: Desk, how: str) -> None:
    """A session that is stopped or archived after continue_task does not resume, and is not told that it might."""
    session = plan(desk, Hang("half"), CONTINUE, Hang("it is"), Answer("fine"))
    await session.submit(Incoming(text="work"))
    await until(lambda: desk.halo.model.active)
    await session.submit(Incoming(text="what time is it?", mode="interrupt_hard"))
    await until(lambda: len(desk.halo.model.requests) == 3 and desk.halo.model.active)
    await getattr(session, how)()
    await rest(session)
    assert await causes(session) == ["message"] * 2
    if how == "stop":
        assert (await session.prompt(Incoming(text="go on?")).result).text == "fine"
        await rest(session)
        assert await causes(session) == ["message"] * 3 and RESET not in (await inputs(session))[-1].content


@pytest.mark.parametrize("how", ["the call is to stop", "the session is stopped"])
async def test_after_a_stop_there_is_no_turn(desk: Desk, how: str) -> None:
    """A call that a stop overtakes answers `no_turn` with code 1, and arms nothing, even after an interrupt."""
    session = desk.session
    if how == "the session is stopped":
        await session.stop()
    (tool,) = [each for each in halo_team.provide_tools(session) if each.spec.name == "continue_task"]
    cancel = SimpleNamespace(requested=how == "the call is to stop")
    turn = Turn(id="t", cause="message", after="interrupted")
    call: Any = SimpleNamespace(arguments={}, cancel=cancel, session=session, turn=turn)
    assert json.loads(await tool.run(call)) == {"code": 1, "status": "no_turn"}
    assert await session.state("team") is None


@pytest.mark.parametrize("mode", ["interrupt_soft", "interrupt_hard"])
async def test_a_second_interrupt_resets_it(desk: Desk, notes: Notes, mode: Mode) -> None:
    """21 A second interrupt before the work is taken up resets it and appends a note; it can be asked for again."""
    second = NOTE if mode == "interrupt_soft" else Hang("it is")
    session = plan(desk, Hang("half"), CONTINUE, second, CONTINUE, Answer("both"), Answer("the work is done"))
    await session.submit(Incoming(text="work"))
    await until(lambda: desk.halo.model.active)
    await session.submit(Incoming(text="what time is it?", mode="interrupt_hard"))
    await until(lambda: len(desk.halo.model.requests) == 3)
    await until(lambda: notes.tool.seen or mode == "interrupt_hard")
    assert (await interrupt(session, notes, mode, "and what day?")).text == "both"
    await rest(session)
    told = await inputs(session)
    assert [each.content.endswith(f"\n\n{RESET}") for each in told] == [False, False, True, False]
    assert told[2].text == "and what day?" and "\n" not in RESET
    assert await statuses(session) == ["set", "set"]
    assert await causes(session) == ["message", "message", "message", "continue_task"]  # kicks <= interrupts
    assert await session.output() == "the work is done"


async def test_it_is_over_when_the_server_starts_anew(desk: Desk, notes: Notes) -> None:
    """Work that a restart cut goes on because of that, and not a second time because it was asked for before."""
    session = plan(desk, Hang("half"), CONTINUE, Hang("it is"))
    await session.submit(Incoming(text="work"))
    await until(lambda: desk.halo.model.active)
    await session.submit(Incoming(text="what time is it?", mode="interrupt_hard"))
    await until(lambda: len(desk.halo.model.requests) == 3 and desk.halo.model.active)
    info = session.info
    await desk.halo.close()
    kernel = await desk.halo.start()
    owner = Principal(name=info.principal, kind=info.principal_kind)
    again = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=owner)
    await rest(again)
    assert await causes(again) == ["message", "message", "recovery"] and await again.state("team") is None


async def test_a_child_that_goes_on_reports_twice(desk: Desk, notes: Notes) -> None:
    """What an interrupted child answers at once is an interim report; its last words are the final one, once."""
    child = await desk.start("do: hang")
    await until(lambda: child.info.state == "running" and desk.halo.model.active)
    desk.orders.plans[child.info.id] = [CONTINUE, Answer("half done"), Answer("all done")]
    found = await desk.ask("interrupt_session", session_id=child.info.id, message="how far are you?")
    assert found["code"] == 0
    await rest(desk.session)
    reports = [each.text for each in await inputs(desk.session) if each.sender == f"session:{child.info.id}"]
    assert len(reports) == 2 and reports[1] == "all done"
    assert "[Interim report · status: still running]" in reports[0] and "half done" in reports[0]
