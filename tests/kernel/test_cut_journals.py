"""Recorded journals that end anywhere: reopened, the next call is one that real providers take, and all views agree."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from halo_kernel import (
    OPERATOR,
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Call,
    Chunk,
    ContextCut,
    Database,
    Event,
    History,
    Incoming,
    InputAdded,
    Kernel,
    Message,
    ModelError,
    ModelRequest,
    Piece,
    Principal,
    Question,
    QuestionAsked,
    QuestionSettled,
    Session,
    StorageUnavailable,
    Text,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Tx,
    View,
    hook,
    repair_history,
)
from halo_kernel.journal import folded, keep_folds
from halo_kernel.records import encode_body
from halo_kernel.reports import is_quiescent
from halo_kernel.tables import insert
from halo_kernel.testing import (
    Answer,
    Calls,
    CrashingStorage,
    CrashPoint,
    Fail,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    journal,
    running_kernel,
    until,
)
from halo_kernel.testing.anthropic_rules import complaint as refused_by_messages
from halo_kernel.testing.anthropic_rules import signed
from halo_kernel.testing.openai_rules import complaint as refused_by_chat

pytestmark = pytest.mark.thorough

Fold = TypeVar("Fold", History, View)
AGENT = Principal(name="session:x", kind="agent")


# the strict provider double


def as_messages(request: ModelRequest) -> dict[str, Any]:
    """Return a request as the Messages API gets it."""
    contents = [{"role": each.role, "content": [_block(block) for block in each.content]} for each in request.messages]
    return {"model": "m", "max_tokens": 4096, "messages": contents}


def _block(block: object) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(id=call, name=name, arguments=arguments):
            return {"type": "tool_use", "id": call, "name": name, "input": arguments}
        case ToolResult(call=call, text=text):
            return {"type": "tool_result", "tool_use_id": call, "content": text}
        case _:
            raise AssertionError(block)


def as_chat(request: ModelRequest) -> dict[str, Any]:
    """Return a request as chat completions get it."""
    return {"model": "m", "messages": [each for message in request.messages for each in _chat(message)]}


def _chat(message: Message) -> list[dict[str, Any]]:
    text = "\n".join(block.text for block in message.content if isinstance(block, Text))
    if message.role == "user":
        results = [block for block in message.content if isinstance(block, ToolResult)]
        told = [{"role": "tool", "tool_call_id": each.call, "content": each.text} for each in results]
        return [*told, *([{"role": "user", "content": text}] if text else [])]
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": json.dumps(block.arguments)}}
        for block in message.content
        if isinstance(block, ToolCall)
    ]
    return [{"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}]


@dataclass
class StrictModel(ScriptedModel):
    """A model that thinks, that numbers its calls, and that refuses what a real provider refuses."""

    refused: list[str] = field(default_factory=list[str])
    calls: int = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Check the request, then play the next step."""
        if wrong := refused_by_messages(as_messages(request)) or refused_by_chat(as_chat(request)):
            self.refused.append(wrong)
            raise ModelError(wrong, kind="refused")
        yield ThinkingDelta("well")
        yield ThinkingDelta("", signed("well"))
        async for chunk in super().stream(request):
            if isinstance(chunk, ToolCall):
                self.calls += 1
                chunk = replace(chunk, id=f"call_{self.calls}")
            yield chunk


class AskTool:
    """A tool that asks before it does anything."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?"))
        return f"told {call.answer.text}"


class DelegateTool:
    """A tool that has work done by a child."""

    spec = ToolSpec(name="delegate", description="Delegate.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        child = await call.session.start_child("default")
        await child.submit(Incoming(text="work", principal=AGENT, key=call.id))
        return f"{child.info.id} works"


class Shrinker:
    """A plugin that replaces the older half of a history, or clears its results when told to."""

    def __init__(self) -> None:
        self.clears = False

    @hook
    async def shrink_context(
        self, reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]
    ) -> ContextCut | None:
        results = [piece.seq for piece in history if isinstance(piece.content[0], ToolResult)]
        if self.clears:
            return ContextCut(start=1, end=0, replacement="", reason=reason, cleared=tuple(results), text="cleared")
        end = history[len(history) // 2].seq
        return ContextCut(start=1, end=end, replacement="in short", reason=reason, text="shortened")


# recording


@dataclass
class Stage:
    """A kernel with the strict model and all that journals are made of."""

    kernel: Kernel
    model: StrictModel
    note: NoteTool
    shrinker: Shrinker
    workspace: str
    held_up: list[Callable[[Call], object]]  # what the note tool does first

    async def session(self) -> Session:
        return await self.kernel.host.sessions.create(workspace=self.workspace, principal=OPERATOR)

    async def ask(self, session: Session, text: str, *steps: Any) -> str:
        """Let a turn come to its end."""
        self.model.then(*steps)
        return (await session.prompt(Incoming(text=text)).result).outcome

    async def answer(self, session: Session, *, approved: bool) -> None:
        """Answer the question that a session waits for, and let the turn end."""
        await until(lambda: session.info.state == "waiting")
        questions, where = self.kernel.host.questions, {"workspace": self.workspace, "principal": OPERATOR}
        (question,) = await questions.list(session=session.info.id, **where)
        await questions.answer(question.id, approved=approved, text="yes or no", **where)
        await until(lambda: session.info.state == "idle")

    @property
    def database(self) -> Database:
        return self.kernel.workspaces.seats[self.workspace].database


@asynccontextmanager
async def stage(folder: Path, *, recover: bool = True, storage: object | None = None) -> AsyncGenerator[Stage, None]:
    model, shrinker, held_up = StrictModel(), Shrinker(), list[Callable[[Call], object]]()
    note = NoteTool(wait=lambda call: held_up[-1](call) if held_up else None)
    extra = {"shrinker": shrinker, **({"storage": storage} if storage else {})}
    tools = [note, AskTool(), DelegateTool()]
    async with running_kernel(folder / "home", model=model, tools=tools, extra=extra, recover=recover) as kernel:
        (folder / "w").mkdir(exist_ok=True)
        workspace = await kernel.host.workspaces.open(folder / "w")
        yield Stage(kernel, model, note, shrinker, workspace.id, held_up)


TWO = Calls([("note", {"text": "x"}), ("note", {"text": "y"})], text="first these")


async def batches(on: Stage) -> Session:
    """Batches of calls, one with a tool that is not there, and input that joins in the middle."""
    session = await on.session()
    assert await on.ask(session, "go", TWO, Calls([("nothing here", {})]), Answer("done")) == "succeeded"
    on.held_up.append(lambda call: session.submit(Incoming(text="and this", mode="steer", key=call.id)))
    assert await on.ask(session, "more", TWO, Answer("both done")) == "succeeded"
    on.held_up.append(lambda call: session.submit(Incoming(text="no, this", key=call.id)))
    await on.ask(session, "again", TWO, Answer("gave way"))
    await until(lambda: session.info.state == "idle")
    on.held_up.clear()
    return session


async def streams(on: Stage) -> Session:
    """Answers that broke off, were discarded, cut by a person and by newer input, and a turn that failed."""
    session = await on.session()
    await on.ask(session, "go", Fail("server", text="half a"), Pieces(["half ", "b"], cut=True), Answer("whole"))
    on.model.then(Hang("streamed so far"))
    await session.submit(Incoming(text="wait"))
    await until(lambda: on.kernel.workspaces.seats[on.workspace].feed.partial(session.info.id))
    await session.submit(Incoming(text="now!", mode="interrupt_hard"))
    await until(lambda: not on.model.active and session.info.state == "idle")
    await on.ask(session, "fail", Fail("refused", text="no"))
    await session.append("note.made", {"text": "a plugin's own"})
    await on.ask(session, "last")
    return session


async def questions(on: Stage) -> Session:
    """A call in the middle of a batch that asks: approved once, denied once."""
    session = await on.session()
    for approved in (True, False):
        on.model.then(Calls([("note", {"text": "x"}), ("ask", {}), ("note", {"text": "y"})]), Answer("I see"))
        await session.submit(Incoming(text="go"))
        await on.answer(session, approved=approved)
    return session


async def compactions(on: Stage) -> Session:
    """Old results cleared, the older half replaced, and that replaced too."""
    session = await on.session()
    for number in range(3):
        await on.ask(session, f"turn {number}", TWO, Answer(f"answer {number}"))
        on.shrinker.clears = number == 1
        assert await session.compact()
    await on.ask(session, "and then?")
    return session


async def children(on: Stage) -> Session:
    """Work handed on, and its report."""
    session = await on.session()
    on.model.then(Calls([("delegate", {})]))
    await on.ask(session, "have it done")
    for _ in range(500):
        events = await journal(session)
        if any(isinstance(e.body, InputAdded) and e.body.cause == "report" for e in events):
            break
        await asyncio.sleep(0.01)
    await until(lambda: session.info.state == "idle")
    return session


async def erasures(on: Stage) -> Session:
    """An exchange deleted, and a turn erased."""
    session = await on.session()
    for number in range(3):
        await on.ask(session, f"turn {number}", TWO, Answer(f"answer {number}"))
    events = await journal(session)
    rows = [event.body.row for event in events if isinstance(event.body, InputAdded)]
    which = {"workspace": on.workspace, "principal": OPERATOR}
    await on.kernel.host.sessions.delete_exchange(session.info.id, row=rows[1], **which)
    first = [event.seq for event in events if event.turn == events[1].turn]
    await on.kernel.host.sessions.erase(session.info.id, start=min(first), end=max(first), **which)
    await on.ask(session, "go on")
    return session


async def forks(on: Stage) -> Session:
    """A fork in the middle of a batch, which then goes on by itself."""
    session, held = await on.session(), asyncio.Event()
    on.held_up.append(lambda call: held.wait())
    on.model.then(TWO)
    await session.submit(Incoming(text="go"))
    await until(lambda: on.note.seen and session.info.state == "running" and not on.model.active)
    await asyncio.sleep(0.05)
    copy = await on.kernel.host.sessions.fork(session.info.id, workspace=on.workspace, principal=OPERATOR)
    held.set()
    await until(lambda: session.info.state == "idle")
    on.held_up.clear()
    await on.ask(copy, "another way")
    return copy


RECORDINGS = [batches, streams, questions, compactions, children, erasures, forks]


async def record(folder: Path) -> dict[str, list[Event]]:
    """Return a journal of each kind, and that of a child, made by real runs."""
    found: dict[str, list[Event]] = {}
    async with stage(folder) as on:
        for make in RECORDINGS:
            session = await make(on)
            found[make.__name__] = await journal(session)
            for info in await session.children():
                child = await on.kernel.host.sessions.open(
                    info.id, workspace=on.workspace, principal=Principal(name=info.principal, kind=info.principal_kind)
                )
                found[f"{make.__name__}_child"] = await journal(child)
        assert not on.model.refused
    return found


# cutting


def plant(tx: Tx, name: str, events: Sequence[Event], following: Event | None) -> None:
    """Store a session whose journal is `events`, as it is in a database whose process died then."""
    who = {"principal": OPERATOR.name, "principal_kind": OPERATOR.kind, "agent": "default", "access": "full"}
    times = {"created_at": 1, "updated_at": 1}
    insert(
        tx, "sessions", {"id": name, "root": name, "journal": name, "head": len(events), "origin": "", **who, **times}
    )
    ids: dict[int, int] = {}
    for event in events:
        body, kind = event.body, event.kind
        if isinstance(body, InputAdded):
            _plant_row(tx, name, event, body)
        if isinstance(body, QuestionAsked):
            ids[body.question] = _plant_question(tx, name, event, body)
        if isinstance(body, QuestionAsked | QuestionSettled):
            body = replace(body, question=ids[body.question])
        if isinstance(body, QuestionSettled):
            settled = (body.state, body.text, body.by, body.question)
            tx.execute("UPDATE questions SET state = ?, answer = ?, answered_by = ? WHERE id = ?", settled)
        values = {"session": name, "seq": event.seq, "at": event.at, "kind": kind, "turn": event.turn}
        insert(tx, "events", {**values, "body": encode_body(body)})
    _plant_run(tx, name, events, following)


def _plant_row(tx: Tx, session: str, event: Event, body: InputAdded) -> None:
    kind = "agent" if body.sender.startswith("session:") else "person"
    values = {"session": session, "key": f"{session}:{body.row}", "at": event.at, "head": 0, "mode": "follow_up"}
    who = {"access": "full", "principal": body.sender, "principal_kind": kind, "text": body.text, "route": ""}
    insert(tx, "inbox", {**values, **who, "cause": body.cause, "state": "consumed", "turn": event.turn})


def _plant_question(tx: Tx, session: str, event: Event, body: QuestionAsked) -> int:
    values = {"session": session, "turn": event.turn, "asker": "tool", "call": body.call, "tool": body.tool}
    more = {"arguments": "{}", "text": body.text, "options": "[]", "access": "full"}
    times = {"asked_at": event.at, "expires_at": body.expires_at}
    row = insert(tx, "questions", {**values, **more, **times}, more="RETURNING id")
    assert row is not None
    return int(row[0])


def _plant_run(tx: Tx, session: str, events: Sequence[Event], following: Event | None) -> None:
    turn = ""
    for event in events:
        turn = {"turn.started": event.turn, "turn.ended": ""}.get(event.kind, turn)
    if not turn:
        return
    waiting = events[-1].kind.startswith("question.")
    values = {"session": session, "root": session, "turn": turn, "boot": "former", "started_at": 1}
    insert(tx, "runs", {**values, "waiting": int(waiting)})
    if following is not None and isinstance(following.body, AssistantMessage | AssistantDiscarded | AssistantCut):
        insert(tx, "partials", {"session": session, "turn": turn, "reply": following.body.reply, "text": "half of it"})


class Mortal:
    """Lets a process's storage die inside its write `last`, counted from when that is set: nothing is written after."""

    def __init__(self) -> None:
        self.storage = CrashingStorage(self._reached)
        self.last, self.writes = 0, 0
        self.dead = asyncio.Event()
        self.place = ""
        self._loop = asyncio.get_running_loop()

    def _reached(self, point: CrashPoint) -> None:
        if not self.last or point.side == "after" or ": lease " in point.what:
            return
        self.writes += 1
        if self.writes >= self.last:
            self.place = self.place or point.what
            self._loop.call_soon_threadsafe(self.dead.set)
            raise StorageUnavailable("the process died in this write")


async def live(on: Stage) -> None:
    """A batch, a child, a question and a compaction in one session."""
    session = await on.kernel.host.sessions.open("talk", workspace=on.workspace, principal=OPERATOR, create=True)
    await on.ask(session, "go", TWO, Answer("done"))
    on.model.then(Calls([("delegate", {}), ("ask", {}), ("note", {"text": "y"})]))
    await session.submit(Incoming(text="more"))
    await on.answer(session, approved=True)
    assert await session.compact()
    await on.ask(session, "and then?")


async def die(folder: Path, last: int) -> str:
    """Live until the write `last`, and return what that was; '' if there was none."""
    mortal = Mortal()
    async with stage(folder, storage=mortal.storage) as on:
        mortal.last = last
        work = asyncio.create_task(live(on))
        dead = asyncio.create_task(mortal.dead.wait())
        await asyncio.wait({work, dead}, return_when=asyncio.FIRST_COMPLETED)
        if not mortal.dead.is_set():
            await work
            mortal.last = 0
        for task in (work, dead):
            task.cancel()
        await asyncio.gather(work, dead, return_exceptions=True)
    return mortal.place


async def go_on(on: Stage, name: str) -> None:
    """Let a reopened session end what it is at, then ask it something."""
    where = {"workspace": on.workspace, "principal": OPERATOR}
    session = await on.kernel.host.sessions.open(name, create=True, **where)
    await rest(on, session)
    result = await session.prompt(Incoming(text=f"go on, {name}")).result
    assert result.outcome == "succeeded", f"{name}: {result}"
    await rest(on, session)
    await check(on, session, result.turn)


async def rest(on: Stage, session: Session) -> None:
    """Return when a tree has nothing left to do; what it asks is approved."""
    for _ in range(3000):
        if await on.database.read(lambda tx: is_quiescent(tx, session.info.id)):
            return
        if session.info.state == "waiting":
            await on.answer(session, approved=True)
        await asyncio.sleep(0.01)
    raise AssertionError(f"{session.info} does not come to rest")


def fold_of(fold: type[Fold], events: Sequence[Event], *, restored_at: int = 0) -> Fold:
    """Return the fold of all events, stored and read again behind the first `restored_at`."""
    state = fold()
    for number, event in enumerate(events, 1):
        state.apply(event)
        if number == restored_at:
            state = msgspec.json.decode(msgspec.json.encode(state), type=fold)
    return state


async def check(on: Stage, session: Session, turn: str) -> None:
    """The events, the request of a turn, what people see and what is kept beside the journal say the same."""
    events, name = await journal(session), session.info.id
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    history, view = fold_of(History, events), fold_of(View, events)
    for fold, whole in ((History, history), (View, view)):
        stored, _ = await on.database.read(lambda tx, fold=fold: folded(tx, name, fold))
        assert stored == whole, f"{name}: snapshot and tail are all"
        assert fold_of(fold, events, restored_at=len(events) // 2) == whole
    seen, _ = await on.kernel.host.sessions.view(name, workspace=on.workspace, principal=OPERATOR)
    assert seen == view and not view.running, name
    said = next(event.seq for event in events if event.turn == turn and event.kind == "assistant.message")
    request = next(each for each in reversed(on.model.requests) if f"go on, {name}" in str(each.messages[-1]))
    assert request.messages == repair_history(fold_of(History, events[: said - 1]).pieces), name
    shown = [item.text for item in view.items.values() if item.kind == "assistant"][-1]
    assert history.pieces[-1].role == "assistant" and Text(shown) in history.pieces[-1].content, name


@pytest.mark.timeout(300)
async def test_a_journal_cut_after_any_event_goes_on(tmp_path: Path) -> None:
    """Cut test: whatever event a journal ends with, the next turn is one that every provider takes, and views agree."""
    (tmp_path / "recorded").mkdir()
    (tmp_path / "cut").mkdir()
    recorded = await record(tmp_path / "recorded")
    kinds = Counter(event.kind for events in recorded.values() for event in events)
    assert {"assistant.cut", "assistant.discarded", "context.cut", "context.erased", "exchange.deleted"} <= kinds.keys()
    assert {"question.settled", "session.forked", "tool.finished", "note.made"} <= kinds.keys()
    async with stage(tmp_path / "cut", recover=False) as on:
        names: list[str] = []
        for kind, events in recorded.items():
            for end in range(1, len(events) + 1):
                name, following = f"{kind}_{end}", events[end] if end < len(events) else None
                await on.database.write(lambda tx, args=(name, events[:end], following): plant(tx, *args))
                if end % 2:
                    await keep_folds(on.database, name)
                names.append(name)
        await on.kernel.sessions.recover(on.workspace)
        for name in names:
            await go_on(on, name)
        assert not on.model.refused
    print(f"{len(names)} cuts of {len(recorded)} journals")


@pytest.mark.timeout(300)
async def test_a_process_that_dies_inside_any_write_goes_on(tmp_path: Path) -> None:
    """Cut test: cut inside a write of a batch, a child, a question or a compaction, all of it goes on as above."""
    died: list[str] = []
    while True:
        folder = tmp_path / str(len(died))
        folder.mkdir()
        place = await die(folder, len(died) + 1)
        async with stage(folder) as on:
            await go_on(on, "talk")
            assert not on.model.refused, place
        if not place:
            break
        died.append(place)
    print(f"died inside {len(died)} writes")
    for write in ("Desk.commit", "Session._accept"):
        assert write in " ".join(died), died
