"""Runs of a session under random schedules: what cancels and closes reach, and what they leave alone."""

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

from halo_kernel import OPERATOR, Event, Incoming, Kernel, Mode, ModelRequest, Session, TurnEnded, TurnStarted
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
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

SEEDS = st.integers(0, 1 << 30)
MODES: list[Mode] = ["steer", "follow_up", "interrupt_soft", "interrupt_hard"]


def model(rnd: random.Random, *, hanging: bool = False) -> ScriptedModel:
    steps: list[Step] = [Answer("a"), Pieces(["a", "b"], 0.001), Calls([("note", {"text": "x"})])]
    more: list[Step] = [Hang("half")] if hanging else []

    def respond(request: ModelRequest) -> Step:
        return rnd.choice(steps + more)

    return ScriptedModel(responder=respond)


def scheduled(scenario: Callable[[random.Random, Path], Awaitable[None]], seed: int) -> None:
    """Run a scenario in a folder of its own."""

    async def run(folder: str) -> None:
        await scenario(random.Random(seed), Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


def outcomes(events: list[Event]) -> dict[str, str]:
    return {event.turn: event.body.outcome for event in events if isinstance(event.body, TurnEnded)}


def started(events: list[Event]) -> list[str]:
    return [event.turn for event in events if isinstance(event.body, TurnStarted)]


async def again(kernel: Kernel, session: Session) -> Session:
    info = session.info
    return await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)


async def closed_at_random(rnd: random.Random, home: Path) -> None:
    scripted = model(rnd, hanging=True)
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    async with running_kernel(home / "home", model=scripted, tools=[note], clock=VirtualClock()) as kernel:
        session: Any = await a_session(kernel, home / "w")
        for number in range(rnd.randint(1, 5)):
            await session.submit(Incoming(text=f"m{number}", mode=rnd.choice(MODES), access=rnd.choice([None, "full"])))
            await asyncio.sleep(rnd.random() * 0.006)
        active = session._turn.id if session._turn is not None else ""
        closing = session.close(rnd.choice(["abort", "land"]))
        known = set(started(await journal(session)))
        await closing
        end, asked = await journal(session), len(scripted.requests)
        assert set(started(end)) - known <= {active}, "nothing begins but what was about to"
        await asyncio.sleep(0.02)
        assert await journal(session) == end and len(scripted.requests) == asked
        scripted.responder = lambda request: Answer("a")
        fresh = await again(kernel, session)
        await until(lambda: fresh.info.state == "idle", 10)
        waiting = await session.seat.database.read(
            lambda tx: tx.one("SELECT count(*) FROM inbox WHERE state = 'waiting'")
        )
        assert waiting == (0,), "what waited is answered by the next opening"


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_closed_session_begins_nothing(seed: int) -> None:
    """S2: from a close on no other turn begins in the session; what waits is answered when it is opened again."""
    scheduled(closed_at_random, seed)


async def cancelled_at_random(rnd: random.Random, home: Path) -> None:
    scripted = model(rnd, hanging=True)
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    async with running_kernel(home / "home", model=scripted, tools=[note], clock=VirtualClock()) as kernel:
        session: Any = await a_session(kernel, home / "w")
        hit: set[str] = set()
        handles: list[Any] = []

        def cancel() -> None:
            active = session._turn
            if session.interrupt():
                hit.add(active.id)

        for number in range(rnd.randint(2, 6)):
            handles.append(session.prompt(Incoming(text=f"m{number}", mode=rnd.choice(["steer", "follow_up"]))))
            await asyncio.sleep(rnd.random() * 0.006)
            if rnd.random() < 0.4:
                cancel()
        everything = asyncio.gather(*(handle.result for handle in handles))
        while not everything.done():  # what hangs ends by a cancel alone
            await asyncio.sleep(0.02)
            if scripted.active:
                cancel()
        ended = outcomes(await journal(session))
        assert {turn for turn, outcome in ended.items() if outcome == "cancelled"} <= hit
        assert set(ended.values()) <= {"succeeded", "cancelled"}
        for result in await everything:
            assert result.outcome == ended[result.turn], "each message was consumed by a turn, and has its outcome"


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_a_cancel_reaches_the_active_run_alone(seed: int) -> None:
    """S6: a cancel ends the run that is active, at any point of it; messages that wait stay, and are answered."""
    scheduled(cancelled_at_random, seed)


async def never_begun(rnd: random.Random, home: Path) -> None:
    wake = Session.wake

    def cancelled(session: Any) -> None:
        fresh = session._driver is None
        wake(session)
        if fresh and session._driver is not None and rnd.random() < 0.4:
            session._driver.cancel()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "wake", cancelled)
        async with running_kernel(home / "home", model=model(rnd), tools=[NoteTool()], clock=VirtualClock()) as kernel:
            session: Any = await a_session(kernel, home / "w")
            handles = []
            for number in range(rnd.randint(1, 6)):
                handles.append(session.prompt(Incoming(text=f"m{number}", mode=rnd.choice(MODES))))
                await asyncio.sleep(rnd.random() * 0.004)
            results = await asyncio.wait_for(asyncio.gather(*(handle.result for handle in handles)), 10)
            assert {result.outcome for result in results} <= {"succeeded", "interrupted"}
            await until(lambda: session.info.state == "idle")
            assert not session._prompts._open and session._driver is None


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_runs_that_never_took_a_step_free_the_session(seed: int) -> None:
    """S7: however many tasks of runs are cancelled before their first step, each message is answered."""
    scheduled(never_begun, seed)


async def told_of_turns(rnd: random.Random, home: Path) -> None:
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    async with running_kernel(home / "home", model=model(rnd), tools=[note], clock=VirtualClock()) as kernel:
        session = await a_session(kernel, home / "w")
        streams = [session.events(live=True) for _ in range(2)]
        handles = []
        for number in range(rnd.randint(2, 6)):
            handles.append(session.prompt(Incoming(text=f"m{number}", mode=rnd.choice(MODES))))
            await asyncio.sleep(rnd.random() * 0.004)
        for handle in handles:
            await handle.result
        await until(lambda: session.info.state == "idle")
        stored = await journal(session)
        for stream in streams:
            told: list[Event] = []
            async for update in stream:
                told += [update.event] if update.event else []
                if told == stored:
                    break
            await stream.aclose()
            each_turn_has_its_own(told)


def each_turn_has_its_own(events: list[Event]) -> None:
    for turn in started(events):
        mine = [event for event in events if event.turn == turn]
        assert [event.seq for event in mine] == list(range(mine[0].seq, mine[-1].seq + 1)), "nothing of another between"
        kinds = [event.kind for event in mine]
        assert (kinds[0], kinds[-1]) == ("turn.started", "turn.ended")
        assert kinds.count("turn.started") == kinds.count("turn.ended") == 1


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_turns_have_events_of_their_own(seed: int) -> None:
    """S8: whoever follows sees no event of two turns, and each turn with one start and one end, at its borders."""
    scheduled(told_of_turns, seed)
