"""The gate under random schedules: what waits behind it, who is named when turns do not end, and what cancels reach."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Call,
    Conflict,
    Incoming,
    InputAdded,
    Kernel,
    Mode,
    ModelRequest,
    Question,
    Session,
    Text,
    ToolSpec,
    TurnStarted,
)
from halo_kernel.testing import Answer, Calls, Hang, ScriptedModel, Step, a_session, journal, running_kernel, until

SEEDS = st.integers(0, 1 << 30)
MODES: list[Mode] = ["steer", "follow_up", "interrupt_soft", "interrupt_hard"]


class Asking:
    """A tool that asks."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?", expires_in=3600))
        return "done"


def respond(request: ModelRequest) -> Step:
    """Hang, ask or answer, as the last message says."""
    last = [block.text for block in request.messages[-1].content if isinstance(block, Text)]
    return {"hang": Hang("half"), "ask": Calls([("ask", {})])}.get(last[-1] if last else "", Answer("fine"))


def scheduled(scenario: Callable[[random.Random, Path], Awaitable[None]], seed: int) -> None:
    """Run a scenario in a folder of its own."""

    async def run(folder: str) -> None:
        await scenario(random.Random(seed), Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


def hold(kernel: Kernel, seconds: float = 5.0) -> Any:
    return kernel.sessions.gate.hold(seconds)


async def parked(rnd: random.Random, home: Path) -> None:
    """Send to sessions, old and new ones, while the gate is held, and withdraw some of it."""
    model = ScriptedModel(responder=respond)
    async with running_kernel(home / "home", model=model) as kernel:
        workspace = (await a_session(kernel, home / "w")).info.workspace
        place: Any = {"workspace": workspace, "principal": OPERATOR}
        handles: dict[str, list[Any]] = {name: [] for name in "abc"}
        sessions: dict[str, Session] = {}
        for _ in range(rnd.randint(1, 2)):
            before, sent = len(model.requests), dict[str, list[Any]]()
            async with hold(kernel):
                for number in range(rnd.randint(1, 8)):
                    name = rnd.choice("abc")
                    sessions[name] = await kernel.host.sessions.open(name, create=True, **place)
                    handle = sessions[name].prompt(Incoming(text=f"m{number}", mode=rnd.choice(MODES)))
                    await handle.accepted
                    if rnd.random() < 0.2:
                        handle.cancel()
                        assert (await handle.result).outcome == "cancelled", "what is parked can be withdrawn"
                    else:
                        sent.setdefault(name, []).append(handle)
                    await asyncio.sleep(rnd.random() * 0.005)
                assert len(model.requests) == before, "no turn begins while it is held"
            for name, mine in sent.items():
                assert len({(await handle.result).turn for handle in mine}) == 1, "one turn answers all of a session's"
                handles[name] += mine
        for name, session in sessions.items():
            rows = [event.body.row for event in await journal(session) if isinstance(event.body, InputAdded)]
            assert rows == [(await handle.accepted).row for handle in handles[name]], "in their order"


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_what_is_parked_is_one_turn(seed: int) -> None:
    """S20, S21, S23, S6: nothing begins behind the gate; afterwards one turn of each session answers what is left."""
    scheduled(parked, seed)


async def stuck(rnd: random.Random, home: Path) -> None:
    """Hold the gate for a moment over sessions that hang, wait for a person, or rest."""
    model = ScriptedModel(responder=respond)
    async with running_kernel(home / "home", model=model, tools=[Asking()]) as kernel:
        states = {"hang": "running", "ask": "waiting", "rest": "idle"}
        sessions: list[tuple[Any, str]] = []
        for _ in range(rnd.randint(1, 4)):
            session, what = await a_session(kernel, home / "w"), rnd.choice(list(states))
            await session.submit(Incoming(text=what))
            hangs = sum(each == "hang" for _, each in sessions) + (what == "hang")
            await until(lambda s=session, w=what, n=hangs: s.info.state == states[w] and model.active == n)
            sessions.append((session, what))
        before = [await journal(session) for session, _ in sessions]
        names = sorted(session.info.id for session, what in sessions if what == "hang")
        held: list[bool] = []
        try:
            async with hold(kernel, 0.1):
                held.append(True)
        except Conflict as refused:
            assert refused.message.endswith(": " + ", ".join(names)), "exactly those that run are named"
        assert bool(held) == (not names), "who waits for a person does not keep anybody waiting"
        assert [await journal(session) for session, _ in sessions] == before, "nobody was touched"
        assert [session.info.state for session, _ in sessions] == [states[what] for _, what in sessions]
        for session, _ in sessions:
            handle = session.prompt(Incoming(text="on", mode="interrupt_hard"))
            assert (await asyncio.wait_for(handle.result, 5)).text == "fine", "and the gate is open"


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_who_does_not_rest_is_named_and_left_alone(seed: int) -> None:
    """S25: a gate that is given up names exactly the sessions that run, changes nothing, and is open again."""
    scheduled(stuck, seed)


@pytest.mark.parametrize("how", ["interrupt", "stop", "answer"])
async def test_what_passes_the_gate(tmp_path: Path, how: str) -> None:
    """S20: while the gate is held a question can be answered and a paused turn be ended; the turn goes on later."""
    model = ScriptedModel(responder=respond)
    async with running_kernel(tmp_path / "home", model=model, tools=[Asking()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="ask"))
        await until(lambda: session.info.state == "waiting")
        place: Any = {"workspace": session.info.workspace, "principal": OPERATOR}
        (question,) = await kernel.host.questions.list(**place)
        async with hold(kernel):
            if how == "answer":
                await kernel.host.questions.answer(question.id, approved=True, **place)
            elif how == "interrupt":
                assert session.interrupt()
            else:
                await session.stop()
            await until(lambda: session.info.state != "running")
            await asyncio.sleep(0.05)
            assert not await kernel.host.questions.list(**place) and not handle.result.done()  # type: ignore[attr-defined]
            starts = [event for event in await journal(session) if isinstance(event.body, TurnStarted)]
            assert len(starts) == len(model.requests) == 1
        result = await asyncio.wait_for(handle.result, 5)
        assert result.outcome == ("succeeded" if how == "answer" else "cancelled")


class Delegate:
    """A tool that has a session below its own answer, and waits for that."""

    spec = ToolSpec(name="delegate", description="Ask another.", parameters={"type": "object"}, effect="read")

    def __init__(self, rnd: random.Random) -> None:
        self._rnd = rnd

    async def run(self, call: Call) -> str:
        await asyncio.sleep(self._rnd.random() * 0.01)
        child = await call.session.start_child("default")
        await asyncio.sleep(self._rnd.random() * 0.01)
        left = int(str(call.arguments["left"]))
        return (await child.prompt(Incoming(text=f"delegate {left - 1}" if left else "answer")).result).text


def delegating(request: ModelRequest) -> Step:
    """Delegate as often as the message says."""
    last = [block.text for block in request.messages[-1].content if isinstance(block, Text)]
    word, _, left = (last[-1] if last else "").partition(" ")
    return Calls([("delegate", {"left": left})]) if word == "delegate" else Answer("fine")


async def delegated(rnd: random.Random, home: Path) -> None:
    """Hold the gate again and again over turns that wait for sessions below them."""
    model = ScriptedModel(responder=delegating)
    async with running_kernel(home / "home", model=model, tools=[Delegate(rnd)]) as kernel:
        sessions = [await a_session(kernel, home / "w") for _ in range(rnd.randint(1, 3))]
        handles: list[Any] = []
        seat = kernel.workspaces.seats[sessions[0].info.workspace]

        async def use(session: Session) -> None:
            await asyncio.sleep(rnd.random() * 0.02)
            handles.append(session.prompt(Incoming(text=f"delegate {rnd.randint(0, 2)}")))

        using = [asyncio.create_task(use(session)) for session in sessions]
        for _ in range(3):
            await asyncio.sleep(rnd.random() * 0.02)
            async with hold(kernel, 20):
                assert model.active == 0 and not any(session._turn for session in seat.sessions.values())
        await asyncio.gather(*using)
        for handle in handles:
            assert (await asyncio.wait_for(handle.result, 10)).text == "fine"


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_who_waits_for_a_session_below_keeps_nobody_waiting(seed: int) -> None:
    """S22, S24: turns that open sessions and wait for them end though the gate is held, however deep that goes."""
    scheduled(delegated, seed)
