"""What a plugin holds of a session: its state, its marks, its children, model calls beside the turn, and its end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import fields
from inspect import get_annotations
from pathlib import Path

import pytest
from msgspec.structs import replace

from halo_kernel import (
    OPERATOR,
    BadInput,
    Call,
    Conflict,
    Denial,
    Incoming,
    InputAdded,
    Message,
    ModelCall,
    ModelError,
    ModelRequest,
    Offer,
    Price,
    Session,
    SessionClosed,
    Text,
    Tool,
    ToolSpec,
    Turn,
    Usage,
    UsageRecorded,
    hook,
)
from halo_kernel.contracts import Call as CallContract
from halo_kernel.contracts import Host as HostContract
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    ScriptedModel,
    Step,
    a_session,
    journal,
    running_kernel,
    until,
)

ASK = ModelRequest(model="", system="", messages=(Message("user", (Text("summarise"),)),))


class Watcher:
    """A plugin that sees every model call, and may refuse some by their purpose."""

    def __init__(self, refused: str = "") -> None:
        self.calls: list[ModelCall] = []
        self.opened: list[str] = []
        self.closed: list[str] = []
        self._refused = refused

    @hook
    async def authorize_model(self, call: ModelCall) -> Denial | None:
        return Denial("not today") if call.purpose == self._refused else None

    @hook
    async def model_finished(self, call: ModelCall) -> None:
        self.calls.append(call)

    @hook
    async def session_opened(self, session: Session) -> None:
        name = session.info.id
        self.opened.append(name)
        session.scope.push("note", lambda: self.closed.append(name))


def public(kind: type) -> set[str]:
    return {name for name in [*vars(kind), *get_annotations(kind)] if not name.startswith("_")}


def test_a_plugin_holds_these_members_and_no_more() -> None:
    """`Host`, `Session`, `Turn` and `Call` have the documented members; the rest of `Session` is the kernel's own."""
    own = {"find_agent", "stir", "wake", "tell_tree", "told", "alter", "doze", "halted", "close", "write"}
    assert public(Session) - own - {"running", "closed"} == {
        *("info", "submit", "prompt", "events", "output", "children", "start_child", "interrupt", "stop"),
        *("archive", "append", "state", "commands", "complete", "compact", "mark", "scope", "waiting"),
    }
    assert public(CallContract) == {
        *("id", "tool", "arguments", "session", "turn", "access", "approval", "cancel", "progress", "scope", "ask"),
        "answer",
    }
    assert {each.name for each in fields(Turn)} | {"trace"} == {"id", "cause", "routes", "trace", "after"}
    assert public(HostContract) == {
        *("settings", "secrets", "log", "clock", "data", "blobs", "workspaces", "sessions", "accounts", "questions"),
        *("outbox", "live", "egress", "spawn", "lookup"),
    }


async def test_state_is_written_with_its_event(tmp_path: Path) -> None:
    """A plugin's state and event are one write, survive a restart, and a stale head changes neither."""
    home = tmp_path / "home"
    async with running_kernel(home) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert await session.state("goal") is None
        event = await session.append("goal.set", {"text": "ship it"}, state={"round": 1})
        assert await session.state("goal") == {"round": 1} and await session.state("other") is None
        with pytest.raises(Conflict):
            await session.append("goal.set", {}, expect_head=event.seq - 1, state={"round": 9})
        assert await session.state("goal") == {"round": 1} and len(await journal(session)) == event.seq
        await session.append("goal.cleared", {}, expect_head=event.seq, state=None)
        assert await session.state("goal") is None
        await session.append("goal.set", {}, state=[1])
        info = session.info
    async with running_kernel(home) as kernel:
        again = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        assert await again.state("goal") == [1]


async def test_marks_stay(tmp_path: Path) -> None:
    """A mark is there once, for good, in lists too; what is no name is refused."""
    home = tmp_path / "home"
    async with running_kernel(home) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for name in ("webhook", "a2a", "webhook"):
            await session.mark(name)
        with pytest.raises(BadInput):
            await session.mark("two words")
        (info,) = await kernel.host.sessions.list(workspace=session.info.workspace, principal=OPERATOR)
        assert info.marks == session.info.marks == ("a2a", "webhook")


async def test_children_are_of_the_tree_and_never_above_their_parent(tmp_path: Path) -> None:
    """A child has its parent's root, owner and at most its level, answers by itself, and is in no list of roots."""
    async with running_kernel(tmp_path / "home") as kernel:
        folder = tmp_path / "w"
        folder.mkdir()
        workspace = await kernel.host.workspaces.open(folder)
        parent = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR, access="workspace")
        child = await parent.start_child("default", access="full", title="helper")
        grandchild = await child.start_child("default", access="readonly")
        assert (child.info.root, child.info.parent, child.info.access) == (parent.info.id, parent.info.id, "workspace")
        assert (grandchild.info.root, grandchild.info.access) == (parent.info.id, "readonly")
        assert [each.id for each in await parent.children()] == [child.info.id]
        assert (await child.prompt(Incoming(text="hi")).result).text == "echo: hi"
        roots = await kernel.host.sessions.list(workspace=workspace.id, principal=OPERATOR)
        assert [each.id for each in roots] == [parent.info.id]


async def test_what_works_and_what_waits_can_be_asked_for(tmp_path: Path) -> None:
    """A child works while it runs, has something to take up, or works below; what no turn took yet waits, in order."""
    model = ScriptedModel(responder=lambda request: Hang())
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        busy, above, idle = [await parent.start_child("default") for _ in range(3)]
        below = await above.start_child("default")
        assert await parent.children(working=True) == []
        await busy.submit(Incoming(text="go"))
        await below.submit(Incoming(text="go"))
        assert {each.id for each in await parent.children(working=True)} == {busy.info.id, above.info.id}
        await until(lambda: model.active == 2)
        for text in ("one", "two"):
            await busy.submit(Incoming(text=text, mode="follow_up"))
        assert [row.text for row in await busy.waiting()] == ["one", "two"] and not await idle.waiting()
        await above.stop()
        assert [each.id for each in await parent.children(working=True)] == [busy.info.id]
        await parent.stop()


@pytest.mark.parametrize(
    ("step", "act", "after"),
    [
        (Answer("done"), "wait", "succeeded"),
        (Fail("refused"), "wait", "failed"),
        (Hang(), "interrupt", "cancelled"),
        (Hang(), "interrupt_hard", "interrupted"),
        (Calls([("note", {"text": "x"})]), "interrupt_soft", "yielded"),
    ],
)
async def test_a_turn_knows_how_the_one_before_it_ended(tmp_path: Path, step: Step, act: str, after: str) -> None:
    """`Turn.after` is the outcome of the turn before, and '' for the first."""
    telling, gate = Telling(), asyncio.Event()
    model = ScriptedModel([Calls([("tell", {})]), Answer("told"), step, Calls([("tell", {})]), Answer("told")])
    tools = [NoteTool(wait=lambda call: gate.wait())]
    async with running_kernel(tmp_path / "home", model=model, extra={"telling": telling}, tools=tools) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="tell")).result
        first = session.prompt(Incoming(text="go"))
        await until(lambda: len(model.requests) == 3)
        if act == "interrupt":
            session.interrupt()
        if act in ("wait", "interrupt"):
            await first.result
        last = session.prompt(Incoming(text="tell", mode="interrupt_soft" if act in ("wait", "interrupt") else act))  # type: ignore[arg-type]
        await last.accepted
        gate.set()
        await last.result
        mine = [turn.after for turn in telling.turns if turn.cause == "message"]
        assert mine[0] == "" and mine[-1] == after


@pytest.mark.parametrize("archive", [False, True])
async def test_a_stop_reaches_the_whole_tree(tmp_path: Path, archive: bool) -> None:
    """Stop ends what runs below and keeps what waits in the history; archive drops that and refuses new messages."""
    model = ScriptedModel(responder=lambda request: Hang("half"))
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        running = child.prompt(Incoming(text="work"))
        await until(lambda: model.active)
        behind = child.prompt(Incoming(text="more", mode="follow_up"))
        await behind.accepted
        await (parent.archive() if archive else parent.stop())
        assert (await asyncio.wait_for(running.result, 5)).outcome == "cancelled"
        assert (await asyncio.wait_for(behind.result, 5)).outcome == "cancelled"
        assert child.info.state == "idle" and model.active == 0
        assert (child.info.archived, child.info.stopped) == (archive, not archive)
        texts = [event.body.text for event in await journal(child) if isinstance(event.body, InputAdded)]
        assert texts == (["work"] if archive else ["work", "more"])
        if archive:
            for session in (parent, child):
                with pytest.raises(SessionClosed):
                    await session.submit(Incoming(text="again"))
        else:
            model.responder = lambda request: Answer("here")
            assert (await child.prompt(Incoming(text="again")).result).text == "here"
            assert not child.info.stopped


async def test_a_model_call_beside_the_turn_is_guarded_and_accounted_for(tmp_path: Path) -> None:
    """`complete` answers with text, journals its tokens under its purpose, and leaves the conversation alone."""
    watcher = Watcher(refused="forbidden")
    model = ScriptedModel([Fail("network"), Answer("short")])
    async with running_kernel(tmp_path / "home", model=model, extra={"watcher": watcher}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert await session.complete(ASK, purpose="summary") == "short"
        with pytest.raises(ModelError, match="not today"):
            await session.complete(ASK, purpose="forbidden")
        events = await journal(session)
        assert [(e.body.purpose, e.body.input) for e in events if isinstance(e.body, UsageRecorded)] == [
            ("summary", 10)
        ]
        assert (await session.prompt(Incoming(text="hi")).result).text == "echo: hi"
        assert len(model.requests[-1].messages) == 1, "nothing of it is in the history"
        await until(lambda: len(watcher.calls) == 3)
        seen = [(call.purpose, call.usage is not None, call.error is not None) for call in watcher.calls]
        assert seen == [("summary", True, False), ("forbidden", False, True), ("turn", True, False)]


async def test_a_denied_model_call_fails_the_turn(tmp_path: Path) -> None:
    """A guard's denial ends the turn before any model is asked, with the guard's reason."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"watcher": Watcher("turn")}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="hi")).result
        assert (result.outcome, result.kind) == ("failed", "refused") and "not today" in result.error
        assert not model.requests


async def test_a_scope_ends_with_its_session(tmp_path: Path) -> None:
    """A session is told to plugins before its first turn, and what they opened for it is closed with the kernel."""
    watcher = Watcher()
    async with running_kernel(tmp_path / "home", extra={"watcher": watcher}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hi")).result
        await session.prompt(Incoming(text="again")).result
        assert watcher.opened == [session.info.id] and watcher.closed == []
    assert watcher.closed == watcher.opened


class Starting:
    """A tool that starts a task and a program for its call."""

    spec = ToolSpec(name="start", description="Start things.", parameters={"type": "object"}, effect="execute")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None

    async def run(self, call: Call) -> str:
        self.task = call.scope.task(asyncio.sleep(60), name="sleeper")
        self.process = await call.scope.process(["sleep", "60"])
        return "started"


async def test_a_calls_scope_ends_with_the_call(tmp_path: Path) -> None:
    """Tasks and programs that a tool started in its call's scope have ended when its result is in the journal."""
    tool = Starting()
    model = ScriptedModel([Calls([("start", {}), ("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[tool, NoteTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="go")).result
        assert tool.task is not None and tool.task.cancelled()
        assert tool.process is not None and tool.process.returncode is not None


class Telling:
    """A tool that keeps what it is told of its turn, and a plugin that hears of turns."""

    spec = ToolSpec(name="tell", description="Tell.", parameters={"type": "object"})

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    @hook
    def provide_tools(self) -> list[Tool]:
        return [self]

    @hook
    async def run_started(self, turn: Turn) -> None:
        self.turns.append(turn)

    async def run(self, call: Call) -> str:
        self.turns.append(call.turn)
        return "told"


async def test_a_turn_tells_why_it_runs_and_where_its_answer_goes(tmp_path: Path) -> None:
    """A hook and a tool are told of the same turn: its id, which is a W3C trace id, its cause, each route once."""
    telling = Telling()
    model = ScriptedModel([Calls([("tell", {})])])
    async with running_kernel(tmp_path / "home", model=model, extra={"telling": telling}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="go", route="chat:me:1", cause="alarm")).result
        await kernel.hooks.close()
        assert telling.turns == [Turn(id=result.turn, cause="alarm", routes=("chat:me:1",))] * 2
        assert re.fullmatch("[0-9a-f]{32}", telling.turns[0].trace)


PRICE = Price(currency="USD", date="2026-11-01", input=1, output=2)


class Priced(ScriptedModel):
    """A model whose offer says what it costs."""

    async def offers(self) -> Sequence[Offer]:
        return [replace(offer, price=PRICE) for offer in await super().offers()]


async def test_accounts_are_told_why_a_call_was_made_what_it_costs_and_of_every_attempt(tmp_path: Path) -> None:
    """A call has its turn's cause and its model's price; an attempt that was cut has begun and reported nothing."""
    watcher, model = Watcher(), Priced([Hang("so far"), Answer("done"), Answer("short")])
    async with running_kernel(tmp_path / "home", model=model, extra={"watcher": watcher}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        prompt = session.prompt(Incoming(text="go", cause="heartbeat"))
        await until(lambda: model.requests)
        assert session.interrupt()
        await prompt.result
        await session.prompt(Incoming(text="again")).result
        await session.complete(ASK, purpose="summary")
        await until(lambda: len(watcher.calls) == 3)
        cut, whole, beside = watcher.calls
        assert [(call.cause, call.price) for call in watcher.calls] == [
            ("heartbeat", PRICE),
            ("message", PRICE),
            ("", PRICE),
        ]
        assert (cut.usage, cut.error, [*cut.spent.values()]) == (None, None, [None])
        replies = [event.body.reply for event in await journal(session) if isinstance(event.body, UsageRecorded)]
        assert [*whole.spent, *beside.spent] == replies
        assert [*whole.spent.values(), beside.usage] == [whole.usage, Usage(input=10, output=5)]
