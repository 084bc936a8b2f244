"""What a session owes, under random schedules: one reply to each route, one report to whoever it works for."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    AssistantMessage,
    Call,
    Claim,
    Conflict,
    Delivery,
    HaloError,
    Incoming,
    InputAdded,
    Kernel,
    Mode,
    ModelRequest,
    Pointer,
    Principal,
    PrincipalKind,
    Question,
    Session,
    Tool,
    ToolSpec,
    TurnStarted,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    NoteTool,
    Pieces,
    ScriptedModel,
    Step,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)

MODES: list[Mode] = ["steer", "follow_up", "interrupt_soft", "interrupt_hard"]
CLAIMS: list[Claim] = ["report", "report", "job", "run"]
KINDS: list[PrincipalKind] = ["person", "person", "agent", "unattended"]


class Asking:
    """A tool that asks now and then."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="read")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?", expires_in=3600))
        return "done"


def model(rnd: random.Random) -> ScriptedModel:
    steps: list[Step] = [
        Answer("a"),
        Pieces(["a", "b"], 0.001),
        Calls([("note", {"text": "x"})]),
        Calls([("note", {"text": "x"}), ("ask", {})]),
        Fail("account"),
    ]

    def respond(request: ModelRequest) -> Step:
        return rnd.choices(steps, [2, 2, 2, 1, 1])[0]

    return ScriptedModel(responder=respond)


class Owing:
    """Messages to one tree, each with a route of its own, some with somebody to report to, through a few boots."""

    def __init__(self, rnd: random.Random, home: Path) -> None:
        self.rnd = rnd
        self.home = home
        self.numbers = count()
        self.routes: list[str] = []
        self.pointers: list[str] = []
        self.names: list[str] = []
        self.workspace = ""

    async def open(self, kernel: Kernel) -> list[Any]:
        """Return the root and its child, made in the first boot."""
        if not self.names:
            root = await a_session(kernel, self.home / "w")
            child = await root.start_child("default")
            self.workspace, self.names = root.info.workspace, [root.info.id, child.info.id]
        sessions = kernel.host.sessions
        return [await sessions.open(name, workspace=self.workspace, principal=OPERATOR) for name in self.names]

    async def boot(self, *, last: bool) -> None:
        rnd = self.rnd
        tools: list[Tool] = [NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003)), Asking()]
        async with running_kernel(self.home / "home", model=model(rnd), tools=tools) as kernel:
            sessions = await self.open(kernel)
            senders = [self.send(kernel, sessions) for _ in range(2)]
            await asyncio.wait_for(asyncio.gather(*senders), 20)
            if last:
                await self.rest(kernel, sessions)
                await self.check(kernel, sessions)

    async def send(self, kernel: Kernel, sessions: list[Any]) -> None:
        rnd = self.rnd
        for _ in range(rnd.randint(1, 4)):
            await asyncio.sleep(rnd.random() * 0.006)
            what = rnd.random()
            if what < 0.5:
                await self.message(sessions[0])
            elif what < 0.65:
                route = self.route()
                handle = sessions[0].prompt(Incoming(text="p", route=route))
                await asyncio.sleep(rnd.random() * 0.003)
                handle.cancel()
                await handle.accepted
            elif what < 0.8:
                await sessions[1].submit(Incoming(text="below", mode=rnd.choice(MODES)))
            elif what < 0.9:
                rnd.choice(sessions).interrupt()
            elif what < 0.95:
                await rnd.choice(sessions).stop()
            else:
                await self.answer(kernel)

    def route(self) -> str:
        self.routes.append(f"chat:me:{next(self.numbers)}")
        return self.routes[-1]

    async def message(self, root: Session) -> None:
        route = self.route()
        target = f"caller of {route}"
        claim = self.rnd.choice(CLAIMS)
        pointer = Pointer(dispatcher=claim, target=target, claim=claim) if self.rnd.random() < 0.5 else None
        try:
            await root.submit(Incoming(text="m", route=route, mode=self.rnd.choice(MODES), reply_to=pointer))
        except Conflict:
            self.routes.remove(route)
        else:
            self.pointers += [target] if pointer else []

    async def answer(self, kernel: Kernel) -> None:
        for question in await kernel.host.questions.list(workspace=self.workspace, principal=OPERATOR):
            how: Any = {"approved": self.rnd.random() < 0.5, "principal": OPERATOR}
            await kernel.host.questions.answer(question.id, workspace=self.workspace, **how)

    async def rest(self, kernel: Kernel, sessions: list[Any]) -> None:
        """Answer whatever is asked until nothing runs or waits."""
        for _ in range(200):
            await until(lambda: all(session.info.state in ("idle", "waiting") for session in sessions), 20)
            if all(session.info.state == "idle" for session in sessions):
                return
            await self.answer(kernel)
        raise AssertionError("it does not come to rest")

    async def check(self, kernel: Kernel, sessions: list[Any]) -> None:
        owed = await kernel.host.outbox.list(workspace=self.workspace, limit=500)
        replies = Counter(each.target for each in owed if each.debt == "reply")
        database = kernel.workspaces.seats[self.workspace].database
        states: dict[str, str] = await database.read(
            lambda tx: dict(tx.execute("SELECT route, state FROM inbox WHERE route <> ''"))
        )
        assert states.keys() == set(self.routes) and "waiting" not in states.values()
        assert replies == {route: 1 for route, state in states.items() if state != "cancelled"}, (states, replies)
        self.check_reports([each for each in reversed(owed) if each.debt == "report"])
        assert await database.read(lambda tx: list(tx.execute("SELECT id FROM sessions WHERE reply_to <> ''"))) == []

    def check_reports(self, reports: list[Delivery]) -> None:
        assert [each.target for each in reports] == self.pointers, "each who claimed is told once, in their order"
        for each in reports:
            assert each.reason in ("answered", "aborted", "cancelled", "superseded")


async def owing(rnd: random.Random, home: Path) -> None:
    work = Owing(rnd, home)
    boots = rnd.randint(1, 3)
    for boot in range(boots):
        await work.boot(last=boot == boots - 1)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 30))
def test_everybody_is_told_once(seed: int) -> None:
    """Whatever is sent, stopped, asked and restarted: one reply to each route, one report to each who claimed it."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(owing(random.Random(seed), Path(folder)))


async def merging(rnd: random.Random, home: Path) -> None:
    scripted = model(rnd)
    tools = [NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))]
    async with running_kernel(home / "home", model=scripted, tools=tools, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, home / "w")
        sent: dict[int, tuple[str, str]] = {}
        for number in range(rnd.randint(3, 10)):
            kind, access = rnd.choice(KINDS), rnd.choice(["full", "full", "readonly"])
            who = Principal(name="operator", kind=kind)
            message: Any = Incoming(text=f"m{number}", principal=who, access=access, mode=rnd.choice(MODES))  # type: ignore[arg-type]
            sent[(await session.submit(message)).row] = kind, access
            await asyncio.sleep(rnd.random() * 0.006)
        await until(lambda: session.info.state == "idle", 20)
        levels: dict[str, str] = {}
        events = await journal(session)
        for event in events:
            if isinstance(event.body, TurnStarted):
                levels[event.turn] = event.body.access
                assert len({sent[row] for row in event.body.rows}) == 1, "of one level and one kind"
            elif isinstance(event.body, InputAdded):
                assert sent[event.body.row][1] == levels[event.turn], "at its own level"
        offered = [{tool.name for tool in request.tools} for request in scripted.requests]
        answered = {levels[event.turn] for event in events if isinstance(event.body, AssistantMessage)}
        assert {"note"} in offered or "full" not in answered
        assert set() in offered or "readonly" not in answered


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 30))
def test_rows_of_two_levels_or_kinds_are_two_turns(seed: int) -> None:
    """Whatever their modes, rows merge with those of their level and kind of principal alone, and run at that level."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(merging(random.Random(seed), Path(folder)))


@pytest.mark.parametrize("how", ["refused", "full"])
async def test_a_message_that_is_refused_leaves_the_pointer(tmp_path: Path, how: str) -> None:
    """S40: a message that is refused is no row, and whoever the session works for is told of the work alone."""
    env = {"HALO_SESSION_MAX_QUEUE_SIZE": "1"}
    held = asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    scripted = ScriptedModel([Calls([("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=scripted, tools=[note], env=env) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        mine = Pointer(dispatcher="relay", target="caller", claim="report")
        await session.submit(Incoming(text="run", reply_to=mine))
        await until(lambda: note.seen)
        if how == "full":
            await session.submit(Incoming(text="fills", mode="follow_up"))
        other = Pointer(dispatcher="cron", target="other", claim="run" if how == "refused" else "report")
        with pytest.raises(HaloError):
            await session.submit(Incoming(text="no", mode="follow_up", reply_to=other))
        held.set()
        await until(lambda: session.info.state == "idle")
        owed = await kernel.host.outbox.list(workspace=session.info.workspace)
        assert [(each.target, each.reason) for each in owed] == [("caller", "answered")]
        texts = [event.body.text for event in await journal(session) if isinstance(event.body, InputAdded)]
        assert texts == (["run", "fills"] if how == "full" else ["run"])
