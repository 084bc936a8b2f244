"""The journal as people and models see it: told after it is stored, the same from every instant on, read once."""

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
    Event,
    History,
    Incoming,
    Kernel,
    Mode,
    ModelRequest,
    Place,
    Session,
    SessionInfo,
    StorageUnavailable,
    View,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    FaultyStorage,
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


def model(rnd: random.Random) -> ScriptedModel:
    steps: list[Step] = [
        Answer("a"),
        Pieces(["a", "b", "c"], 0.001),
        Calls([("note", {"text": "x"})], text="let me"),
        Fail("network", text="half"),
    ]

    def respond(request: ModelRequest) -> Step:
        return rnd.choice(steps)

    return ScriptedModel(responder=respond)


def scheduled(scenario: Callable[[random.Random, Path], Awaitable[None]], seed: int) -> None:
    """Run a scenario in a folder of its own."""

    async def run(folder: str) -> None:
        await scenario(random.Random(seed), Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


async def looked_at(rnd: random.Random, home: Path) -> None:
    """Look at a session at random instants, follow from there, and compare at the end."""
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    async with running_kernel(home / "home", model=model(rnd), tools=[note], clock=VirtualClock()) as kernel:
        session = await a_session(kernel, home / "w")
        place = {"workspace": session.info.workspace, "principal": OPERATOR}
        seen: list[tuple[View, str, asyncio.Task[list[Event]]]] = []
        ended = asyncio.Event()

        async def follow(cursor: str) -> list[Event]:
            stream = session.events(cursor, live=True)
            found: list[Event] = []
            reading = asyncio.ensure_future(anext(stream))
            while not ended.is_set() or reading.done():
                await asyncio.wait({reading}, timeout=0.02)
                if reading.done():
                    found += [reading.result().event] if reading.result().event else []  # type: ignore[list-item]
                    reading = asyncio.ensure_future(anext(stream))
            reading.cancel()
            await asyncio.wait({reading})
            await stream.aclose()
            return found

        for number in range(rnd.randint(1, 4)):
            await session.submit(Incoming(text=f"m{number}", mode=rnd.choice(MODES)))
            await asyncio.sleep(rnd.random() * 0.006)
            view, cursor = await kernel.host.sessions.view(session.info.id, **place)  # type: ignore[arg-type]
            seen.append((view, cursor, asyncio.create_task(follow(cursor))))
        await until(lambda: session.info.state == "idle")
        await asyncio.sleep(0.01)
        ended.set()
        last, _ = await kernel.host.sessions.view(session.info.id, **place)  # type: ignore[arg-type]
        for view, cursor, following in seen:
            rest = [update.event async for update in session.events(cursor) if update.event]
            assert await following == rest, "nothing twice and nothing missing"
            for event in rest:
                view.apply(event)
            assert view == last


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_a_view_and_what_comes_after_it_are_all(seed: int) -> None:
    """S48: what people see at any instant, with the events after its cursor, is what they see in the end."""
    scheduled(looked_at, seed)


def folds_of(events: list[Event]) -> tuple[History, View]:
    history, view = History(), View()
    for event in events:
        history.apply(event)
        view.apply(event)
    return history, view


async def reopened(rnd: random.Random, home: Path) -> None:
    """Use a session through three starts, and compare what it has in memory with what is stored, after each."""
    name = workspace = ""
    for _ in range(3):
        scripted = model(rnd)
        async with running_kernel(home / "home", model=scripted, tools=[NoteTool()]) as kernel:
            if not name:
                info = (await a_session(kernel, home / "w")).info
                name, workspace = info.id, info.workspace
            session: Any = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
            stream = session.events(live=True)
            for number in range(rnd.randint(1, 3)):
                await session.submit(Incoming(text=f"m{number}", mode=rnd.choice(MODES)))
                await asyncio.sleep(rnd.random() * 0.004)
            scripted.responder = lambda request: Answer("a")
            await until(lambda session=session: session.info.state == "idle", 10)  # type: ignore[misc]
            stored, told = await journal(session), list[Event]()
            async for update in stream:
                told += [update.event] if update.event else []
                if told[-1:] == stored[-1:]:
                    break
            await stream.aclose()
            assert told == stored and session._desk.history == folds_of(stored)[0]
            seen, _ = await kernel.host.sessions.view(name, workspace=workspace, principal=OPERATOR)
            assert seen == folds_of(told)[1]
            await session.submit(Incoming(text="left behind", mode="follow_up"))
            await asyncio.sleep(rnd.random() * 0.004)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_what_was_told_is_what_is_there_after_a_restart(seed: int) -> None:
    """S47: through restarts at any instant, live folds, the session's own history and a replay are one."""
    scheduled(reopened, seed)


async def told_and_read(rnd: random.Random, home: Path) -> None:
    """Let writes fail now and then, and read back each event at the moment it is told."""
    failing = [0.0]

    def before(place: Place, number: int) -> None:
        if place.name == "halo" and rnd.random() < failing[0]:
            raise StorageUnavailable("injected")

    extra = {"faulty": FaultyStorage(before)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("halo_kernel.sessions.session._HELD_SECONDS", 0.02)
        async with running_kernel(
            home / "home", model=model(rnd), tools=[NoteTool()], extra=extra, clock=VirtualClock()
        ) as kernel:
            session = await a_session(kernel, home / "w")
            database = kernel.workspaces.seats[session.info.workspace].database
            told: list[int] = []

            async def follow() -> None:
                async for update in session.events(live=True):
                    if (event := update.event) is not None:
                        args = (event.session, event.seq, event.kind)
                        sql = "SELECT 1 FROM events WHERE session = ? AND seq = ? AND kind = ?"
                        found = await database.read(lambda tx, args=args, sql=sql: tx.one(sql, args))
                        assert found is not None, f"{event.kind} was told before it could be read"
                        told.append(event.seq)

            following = asyncio.create_task(follow())
            failing[0] = rnd.choice([0.0, 0.05, 0.15])
            for number in range(rnd.randint(1, 4)):
                try:
                    await session.submit(Incoming(text=f"m{number}", mode=rnd.choice(MODES)))
                except StorageUnavailable:
                    continue
                await asyncio.sleep(rnd.random() * 0.006)
            failing[0] = 0.0
            await until(lambda: session.info.state == "idle", 10)
            await until(lambda: following.done() or told[-1:] == [session.info.head])
            assert not following.done(), following.exception()
            following.cancel()
            assert told == list(range(1, len(told) + 1))


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_nothing_is_told_before_it_is_stored(seed: int) -> None:
    """S50: whichever writes fail, an event that a follower is told of can be read back at that moment."""
    scheduled(told_and_read, seed)


async def listed(kernel: Kernel, session: Session) -> SessionInfo:
    (info,) = await kernel.host.sessions.list(workspace=session.info.workspace, principal=OPERATOR)
    return info


async def test_the_states_that_are_reported(tmp_path: Path) -> None:
    """S1: closed goes before running, that before waiting, that before idle; a cut turn is an outcome, not a state."""
    home, scripted = tmp_path / "home", ScriptedModel([Hang("half")])
    async with running_kernel(home, model=scripted) as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        assert session.info.state == (await listed(kernel, session)).state == "idle"
        handle = session.prompt(Incoming(text="go"))
        assert session.info.state == "running", "from the very line on that registers it"
        await until(lambda: scripted.active)
        assert (await listed(kernel, session)).state == "running"
        hard = session.prompt(Incoming(text="now", mode="interrupt_hard"))
        assert (await handle.result).outcome == "interrupted"
        await hard.result
        await until(lambda: session.info.state == "idle")
        await session.stop()
        assert session.info.stopped and (await listed(kernel, session)).stopped and session.info.state == "idle"
        await session.prompt(Incoming(text="on")).result
        assert not session.info.stopped, "a message takes the flag back"
        await session.archive()
        assert session.info.archived and (await listed(kernel, session)).archived
        scripted.then(Hang())
        closing = session.close("abort")
        assert session.info.state == "closed" and not closing.done(), "closing is closed already"
        await closing
