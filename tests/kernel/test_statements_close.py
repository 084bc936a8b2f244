"""Closing: once for all who ask, after what runs has ended or its time is over, whatever fails on the way."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    HaloError,
    Incoming,
    InputAdded,
    Kernel,
    Session,
    Stopping,
    TurnEnded,
)
from halo_kernel.scopes import Scope
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    NoteTool,
    ScriptedModel,
    a_session,
    journal,
    running_kernel,
    until,
)

SEEDS = st.integers(0, 1 << 30)


def scheduled(scenario: Callable[[random.Random, Path], Awaitable[None]], seed: int) -> None:
    """Run a scenario in a folder of its own."""

    async def run(folder: str) -> None:
        await scenario(random.Random(seed), Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


def noting() -> ScriptedModel:
    return ScriptedModel(responder=lambda request: Calls([("note", {"text": "x"})]))


async def again(kernel: Kernel, session: Session) -> Session:
    info = session.info
    return await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)


class Deaf:
    """Work that ignores every cancel until it is let go."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    async def __call__(self) -> None:
        while not self.free.is_set():
            try:
                await self.free.wait()
            except asyncio.CancelledError:
                continue


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close waits 0.3 s for a run, and a run 0.9 s for what is deaf."""
    monkeypatch.setattr("halo_kernel.sessions.session._CLOSE_SECONDS", 0.3)
    monkeypatch.setattr("halo_kernel.turns.batch._GRACE_SECONDS", 0.1)
    monkeypatch.setattr("halo_kernel.turns.cancel.DEAF_SECONDS", 0.8)


async def many_closes(rnd: random.Random, close: Callable[[], Awaitable[object]], ended: Callable[[], int]) -> None:
    """Ask for the end many times, cancel some of those who ask, and see that the others return after it."""

    async def ask() -> None:
        await asyncio.sleep(rnd.random() * 0.02)
        await close()
        assert ended() == 1, "who returns, returns after the end"

    callers = [asyncio.create_task(ask()) for _ in range(rnd.randint(2, 8))]
    for caller in callers[1:]:
        if rnd.random() < 0.5:
            await asyncio.sleep(rnd.random() * 0.01)
            caller.cancel()
    for outcome in await asyncio.gather(*callers, return_exceptions=True):
        assert outcome is None or isinstance(outcome, asyncio.CancelledError)
    assert ended() == 1


async def scopes_closed(rnd: random.Random, home: Path) -> None:
    scope, ends = Scope("s"), [0]

    async def closer() -> None:
        await asyncio.sleep(0.01)
        ends[0] += 1

    scope.push("part", closer)
    await many_closes(rnd, scope.close, lambda: ends[0])


async def sessions_closed(rnd: random.Random, home: Path) -> None:
    note, ends = NoteTool(wait=lambda call: asyncio.sleep(0.01)), [0]
    async with running_kernel(home / "home", model=noting(), tools=[note]) as kernel:
        session: Any = await a_session(kernel, home / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: note.seen)

        async def closer() -> None:
            await asyncio.sleep(0.01)
            ends[0] += 1

        session.scope.push("part", closer)

        async def close() -> None:  # as those do who open it again, and wait for the end of what was before
            session.close(rnd.choice(["abort", "land"]))
            assert await again(kernel, session) is not session

        await many_closes(rnd, close, lambda: ends[0])


async def kernels_closed(rnd: random.Random, home: Path) -> None:
    note, ends = NoteTool(wait=lambda call: asyncio.sleep(0.01)), [0]
    async with running_kernel(home / "home", model=noting(), tools=[note]) as kernel:
        session = await a_session(kernel, home / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: note.seen)

        async def closer() -> None:
            await asyncio.sleep(0.01)
            ends[0] += 1

        session.scope.push("part", closer)
        await many_closes(rnd, kernel.close, lambda: ends[0])


@pytest.mark.parametrize("scenario", [scopes_closed, sessions_closed, kernels_closed])
@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_an_end_comes_once_for_all_who_ask(scenario: Any, seed: int) -> None:
    """S10: however many close, and are cancelled meanwhile, the end comes once, and who returns, returns after it."""
    scheduled(scenario, seed)


async def disposed(rnd: random.Random, home: Path) -> None:
    """Close a session, or its kernel, at random while its tools run, which take note of the end of their session."""
    running, ends = [0], [0]

    async def work() -> None:
        running[0] += 1
        await asyncio.sleep(rnd.random() * 0.01)
        running[0] -= 1

    note = NoteTool(wait=lambda call: work())
    async with running_kernel(home / "home", model=noting(), tools=[note]) as kernel:
        session: Any = await a_session(kernel, home / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: note.seen)

        async def closer() -> None:
            assert not running[0] and session._turn is None, "nothing runs any more"
            ends[0] += 1

        session.scope.push("part", closer)
        await asyncio.sleep(rnd.random() * 0.03)
        await (kernel.close() if rnd.random() < 0.3 else session.close(rnd.choice(["abort", "land"])))
        assert ends[0] == 1 and not running[0]


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_nothing_of_a_session_is_closed_under_its_run(seed: int) -> None:
    """S12: what was opened for a session is closed after its runs have ended, whenever the end comes."""
    scheduled(disposed, seed)


async def test_a_deaf_run_is_left_behind_by_name(tmp_path: Path, quick: None, caplog: pytest.LogCaptureFixture) -> None:
    """S12, S13: over a run that does not end a close takes its deadline, then disposes and names the session."""
    deaf, ends = Deaf(), list[float]()
    note = NoteTool(wait=lambda call: deaf())
    async with running_kernel(tmp_path / "home", model=noting(), tools=[note]) as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: note.seen)
        session.scope.push("part", lambda: ends.append(time.monotonic()))
        begun = time.monotonic()
        with caplog.at_level(logging.WARNING):
            await session.close("abort")
        assert 0.3 <= ends[0] - begun <= time.monotonic() - begun < 1.0
        told = [record.getMessage() for record in caplog.records if "does not end" in record.getMessage()]
        assert len(told) == 1 and session.info.id in told[0]
        deaf.free.set()
        await until(lambda: session._driver is None)


@pytest.mark.parametrize("count", [1, 6])
async def test_many_deaf_runs_take_the_time_of_one(tmp_path: Path, quick: None, count: int) -> None:
    """S14: a kernel closes its sessions side by side: however many are deaf, their deadline is waited for once."""
    deaf = Deaf()
    note = NoteTool(wait=lambda call: deaf())
    async with running_kernel(tmp_path / "home", model=noting(), tools=[note]) as kernel:
        sessions = [await a_session(kernel, tmp_path / "w") for _ in range(count)]
        for session in sessions:
            await session.submit(Incoming(text="go"))
        await until(lambda: len(note.seen) == count)
        begun = time.monotonic()
        seats = list(kernel.workspaces.seats.values())
        await kernel.sessions.close(seats, "abort")
        assert 0.3 <= time.monotonic() - begun < 0.3 * 2
        deaf.free.set()
        await until(lambda: not any(session._driver for session in sessions))  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["abort", "land"])
async def test_the_two_ways_to_close(tmp_path: Path, mode: Literal["abort", "land"]) -> None:
    """S19: `abort` ends the active turn, `land` leaves it for the next boot, which goes on; what waits stays."""
    home, model = tmp_path / "home", ScriptedModel([Hang("half")])
    async with running_kernel(home, model=model) as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="question"))
        await until(lambda: model.active)
        await session.submit(Incoming(text="behind", mode="follow_up"))
        await session.close(mode)
        if mode == "abort":
            assert (await running.result).outcome == "cancelled"
        else:
            with pytest.raises(Stopping):
                await running.result
        runs = await session.seat.database.read(lambda tx: tx.one("SELECT count(*), sum(landed) FROM runs"))
        states = await session.seat.database.read(lambda tx: list(tx.execute("SELECT state FROM inbox ORDER BY id")))
        assert runs == ((0, None) if mode == "abort" else (1, 1)) and states == [("consumed",), ("waiting",)]
        ends = [event.body.outcome for event in await journal(session) if isinstance(event.body, TurnEnded)]
        assert ends == (["cancelled"] if mode == "abort" else [])
    model = ScriptedModel(responder=lambda request: Answer("done"))
    async with running_kernel(home, model=model) as kernel:
        session = await again(kernel, session)
        await until(lambda: model.requests and session.info.state == "idle")
        events = await journal(session)
        ends = [event.body.outcome for event in events if isinstance(event.body, TurnEnded)]
        assert ends == ["cancelled" if mode == "abort" else "interrupted", "succeeded"]
        causes = [event.body.cause for event in events if isinstance(event.body, InputAdded)]
        assert causes == ["message", "message"] + (["recovery"] if mode == "land" else [])


async def test_an_end_that_fails_gives_everything_back(tmp_path: Path) -> None:
    """S16: when a part of a session raises at its end, the session is left, and the next opening is a working one."""

    def raises() -> None:
        raise LookupError("injected")

    async with running_kernel(tmp_path / "home") as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="one")).result
        session.scope.push("part", raises)
        await session.close("abort")
        assert session.info.id not in session.seat.sessions and session.lease is None
        fresh = await again(kernel, session)
        assert fresh is not session
        assert (await fresh.prompt(Incoming(text="two")).result).text == "echo: two"


async def replaced(rnd: random.Random, home: Path) -> None:
    """Put a second instance in the place of one that is closed, at a random moment, and close the old one again."""
    async with running_kernel(home / "home") as kernel:
        old: Any = await a_session(kernel, home / "w")
        seat, name = old.seat, old.info.id
        await old.prompt(Incoming(text="one")).result
        closes = [old.close("abort")] if rnd.random() < 0.7 else []
        for _ in range(rnd.randint(0, 4)):
            await asyncio.sleep(0)
        if rnd.random() < 0.5:
            await asyncio.gather(*closes)
        other = type(old)(seat, old.info)
        seat.sessions[name] = seat._rested[name] = other
        await asyncio.gather(old.close("land"), *closes)
        assert seat.sessions[name] is other and seat._rested[name] is other
        assert (await other.prompt(Incoming(text="two")).result).text == "echo: two"


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_an_old_instance_takes_nothing_from_a_newer_one(seed: int) -> None:
    """S11: closing an instance, once or again, leaves another one of the same id where it is."""
    scheduled(replaced, seed)


def open_files(folder: Path) -> list[str]:
    """Return what this process has open below a folder."""
    found: list[str] = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [each for each in found if each.startswith(str(folder))]


async def ended(rnd: random.Random, home: Path) -> None:
    """Close a kernel at random while sessions are opened and used."""
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.01))
    async with running_kernel(home / "home", model=noting(), tools=[note]) as kernel:
        workspace = (await a_session(kernel, home / "w")).info.workspace
        found: list[Any] = []

        async def use() -> None:
            for number in range(5):
                await asyncio.sleep(rnd.random() * 0.01)
                with suppress(HaloError):
                    session = await kernel.host.sessions.open(
                        f"s{number}", workspace=workspace, principal=OPERATOR, create=True
                    )
                    found.append(session)
                    await session.submit(Incoming(text="go"))

        using = [asyncio.create_task(use()) for _ in range(3)]
        await asyncio.sleep(rnd.random() * 0.03)
        await kernel.close()
        await asyncio.gather(*using)
        assert not any(session.running or session._turn for session in found), "nothing runs any more"
        assert not open_files(home), "and nothing is open"
        with pytest.raises(HaloError):
            await kernel.host.sessions.create(workspace=workspace, principal=OPERATOR)
    async with running_kernel(home / "home", recover=False) as kernel:
        await kernel.host.workspaces.open(home / "w")
        sql = "SELECT count(*) FROM leases WHERE member IS NOT NULL"
        assert await kernel.workspaces.seats[workspace].database.read(lambda tx: tx.one(sql)) == (0,), "nor held"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed in /proc")
@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_a_kernel_that_has_ended_holds_nothing(seed: int) -> None:
    """S18: at the end of a kernel no session runs, no file is open, no lease is held, and none is made."""
    scheduled(ended, seed)
