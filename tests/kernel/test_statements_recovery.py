"""Recovery under random cuts: each cut turn is ended once, each tree nudged once, and a pause is left alone."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Call,
    Event,
    Incoming,
    InputAdded,
    Kernel,
    ModelRequest,
    Question,
    Session,
    Text,
    ToolSpec,
    TurnEnded,
    TurnStarted,
)
from halo_kernel.testing import Answer, Calls, Hang, ScriptedModel, Step, a_session, journal, running_kernel, until

STATES = ["idle", "model", "tool", "question"]
CUT = {"model", "tool"}


class Doing:
    """A tool that asks, or hangs."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name=name, description="Do it.", parameters={"type": "object"}, effect="write")
        self.runs = 0

    async def run(self, call: Call) -> str:
        self.runs += 1
        if self.spec.name == "question" and call.answer is None:
            call.ask(Question(text="Really?", expires_in=3600))
        await asyncio.Event().wait()
        return "done"


def respond(request: ModelRequest) -> Step:
    """Do what the last message is: hang, or call the tool of its name."""
    last = [block.text for block in request.messages[-1].content if isinstance(block, Text)]
    match last[-1:]:
        case ["model"]:
            return Hang("half")
        case ["tool" | "question" as name]:
            return Calls([(name, {})])
        case _:
            return Answer("done")


async def reached(session: Session, state: str, model: ScriptedModel, tool: Doing) -> None:
    """Send a session a message of its state's name, and return when it is there."""
    hanging, runs = model.active, tool.runs
    if state == "idle":
        await session.prompt(Incoming(text=state)).result
        return
    await session.submit(Incoming(text=state))
    match state:
        case "model":
            await until(lambda: model.active > hanging)
        case "tool":
            await until(lambda: tool.runs > runs)
        case _:
            await until(lambda: session.info.state == "waiting")


async def at_rest(kernel: Kernel, sessions: list[Session]) -> None:
    """Wait until these sessions have nothing to do, reports of their children among it."""
    seat, marks = kernel.workspaces.seats[sessions[0].info.workspace], ", ".join("?" * len(sessions))
    sql = f"SELECT 1 FROM inbox WHERE state = 'waiting' AND session IN ({marks})"

    async def nothing_waits() -> bool:
        waits = await seat.database.read(lambda tx: tx.one(sql, [each.info.id for each in sessions]))
        return waits is None and all(each.info.state == "idle" for each in sessions)

    await until(nothing_waits, 10)


async def journals(kernel: Kernel, sessions: list[Session]) -> dict[str, list[Event]]:
    """Return the journal of each session, once all are at rest."""
    found: dict[str, list[Event]] = {}
    for session in sessions:
        info = session.info
        live = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        await until(lambda live=live: live.info.state != "running")
        found[info.id] = await journal(live)
    return found


def cuts(events: list[Event]) -> list[str]:
    """Return the turns that have begun and not ended."""
    ended = {event.turn for event in events if isinstance(event.body, TurnEnded)}
    return [event.turn for event in events if isinstance(event.body, TurnStarted) and event.turn not in ended]


async def recovered(rnd: random.Random, home: Path) -> None:
    model, tools = ScriptedModel(responder=respond), [Doing("tool"), Doing("question")]
    states: dict[str, str] = {}
    async with running_kernel(home / "home", model=model, tools=tools) as kernel:
        sessions = [await a_session(kernel, home / "w") for _ in range(2)]
        sessions += [await session.start_child("default") for session in sessions]
        for session in sessions:
            states[session.info.id] = rnd.choice(STATES)
            await reached(session, states[session.info.id], model, tools[0])
        if idle := [session for session in sessions if states[session.info.id] == "idle"]:
            await at_rest(kernel, idle)
        before = {session.info.id: await journal(session) for session in sessions}
    runs = [tool.runs for tool in tools]
    after: list[dict[str, list[Event]]] = []
    for _ in range(2):
        async with running_kernel(home / "home", model=ScriptedModel(), tools=tools, recover=False) as kernel:
            await kernel.host.workspaces.open(home / "w")
            if not after:  # as after a crash: nothing was landed
                seat = kernel.workspaces.seats[sessions[0].info.workspace]
                await seat.database.write(lambda tx: tx.one("UPDATE runs SET landed = 0"))
            await asyncio.gather(*(kernel.recover() for _ in range(rnd.randint(1, 3))))
            await journals(kernel, sessions)
            await asyncio.sleep(0.05)
            await kernel.recover()
            after.append(await journals(kernel, sessions))
    assert after[0] == after[1], "what was recovered is left alone"
    assert [tool.runs for tool in tools] == runs, "no call is run again"
    for session in sessions:
        name, root = session.info.id, session.info.root
        tree = {states[each.info.id] for each in sessions if each.info.root == root}
        check(states[name], name == root and bool(tree & CUT), before[name], after[0][name])


def check(state: str, nudged: bool, before: list[Event], after: list[Event]) -> None:
    """See what recovery has made of a session that was in a state."""
    assert after[: len(before)] == before, "nothing is rewritten"
    new = after[len(before) :]
    if state == "question":
        assert new == [], "a pause is left alone; what comes to it waits"
        return
    ends = [event.turn for event in new if isinstance(event.body, TurnEnded) and event.body.outcome == "interrupted"]
    assert ends == cuts(before) and bool(ends) == (state in CUT)
    nudges = [event for event in new if isinstance(event.body, InputAdded) and event.body.cause == "recovery"]
    assert len(nudges) == nudged and cuts(after) == []


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_recovery_mends_once_and_leaves_pauses_alone(seed: int) -> None:
    """S49: however often trees are recovered, each cut turn is ended once, a root nudged once, a pause untouched."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("halo_kernel.turns.batch._GRACE_SECONDS", 0.05)
        asyncio.run(recovered(random.Random(seed), Path(folder)))
