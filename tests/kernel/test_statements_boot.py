"""Starts and ends of a server: who recovers, who counts as alive, what a nudge says, and what a shutdown leaves."""

from __future__ import annotations

import asyncio
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    OPERATOR,
    AssistantCut,
    Event,
    Incoming,
    InputAdded,
    Kernel,
    LeaseHeld,
    ModelRequest,
    Place,
    SessionInfo,
    StorageUnavailable,
    Text,
    TurnEnded,
)
from halo_kernel.journal import read
from halo_kernel.presence import is_running
from halo_kernel.testing import (
    Answer,
    FaultyStorage,
    Hang,
    NoteTool,
    ScriptedModel,
    Step,
    a_session,
    journal,
    running_kernel,
    until,
)


async def again(kernel: Kernel, info: SessionInfo) -> Any:
    return await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)


def ends(events: list[Event]) -> list[str]:
    return [event.body.outcome for event in events if isinstance(event.body, TurnEnded)]


def nudges(events: list[Event]) -> list[str]:
    return [
        event.body.text for event in events if isinstance(event.body, InputAdded) and event.body.cause == "recovery"
    ]


async def test_a_second_process_leaves_what_lives_alone(tmp_path: Path) -> None:
    """47: whoever starts on a home whose trees another process holds ends, nudges and reports nothing there."""
    home, held = tmp_path / "home", asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())

    def respond(request: ModelRequest) -> Step:
        return Hang("half") if request.messages[-1].content == (Text("hang"),) else Answer("done")

    model, other = ScriptedModel(responder=respond), ScriptedModel()
    async with running_kernel(home, model=model, tools=[note]) as first:
        parent = await a_session(first, tmp_path / "w")
        child = await parent.start_child("default")
        handle = child.prompt(Incoming(text="hang"))
        await until(lambda: model.active)
        before = [await journal(parent), await journal(child)]
        async with running_kernel(home, model=other, tools=[note]) as second:
            await second.recover()
            await again(second, child.info)
            await asyncio.sleep(0.1)
            assert [await journal(parent), await journal(child)] == before
        assert other.requests == [] and child.info.state == "running"
        child.interrupt()
        assert (await handle.result).outcome == "cancelled"


@pytest.mark.parametrize("how", ["permission", "loop"])
async def test_a_lock_that_cannot_be_looked_at_is_held(tmp_path: Path, how: str) -> None:
    """48: a process whose lock file may not be read counts as alive: its lease is not taken from it."""
    if how == "permission" and os.geteuid() == 0:
        pytest.skip("root may read every file")
    async with running_kernel(tmp_path / "a") as first, running_kernel(tmp_path / "b") as second:
        session: Any = await a_session(first, tmp_path / "w")
        await session.prompt(Incoming(text="hello")).result
        name, place = f"tree:{session.info.id}", tmp_path / "w" / ".halo"
        held = await session.seat.database.read(
            lambda tx: next(iter(tx.execute("SELECT member FROM leases WHERE name = ?", (name,))))[0]
        )
        (lock,) = place.rglob(held)
        if how == "permission":
            lock.chmod(0)
        else:
            lock.rename(lock.with_suffix(".kept"))
            lock.symlink_to(lock)
        await second.host.workspaces.open(tmp_path / "w")
        try:
            with pytest.raises(LeaseHeld):
                await second.workspaces.seats[session.info.workspace].database.lease(name)
        finally:
            if how == "loop":
                lock.unlink()
                lock.with_suffix(".kept").rename(lock)


def test_a_process_of_somebody_else_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """48: a process that we may not signal counts as alive, one that is not there does not."""

    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    assert is_running(os.getpid()) and not is_running(0x3FFFFFFE)
    monkeypatch.setattr(os, "kill", refuse)
    assert is_running(1)


async def test_a_crash_while_it_recovers_nudges_nobody_twice(tmp_path: Path) -> None:
    """49: whichever write of a recovery is the last one before a crash, each cut turn is nudged for once."""
    failing, number = True, 0
    while failing:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        failing = await crashed_recovery(folder, number)
    assert number > 3


async def crashed_recovery(folder: Path, last: int) -> bool:
    """Recover with a storage that fails from its write `last` on, then with a sound one; false when it never failed."""
    model, failed = ScriptedModel([Hang("half")]), list[int]()
    async with running_kernel(folder / "home", model=model) as kernel:
        session: Any = await a_session(kernel, folder / "w")
        await session.submit(Incoming(text="question"))
        await until(lambda: model.active)
        info = session.info

    def before(place: Place, number: int) -> None:
        if place.name == "halo" and len(failed) + number >= last and not healthy:
            failed.append(number)
            raise StorageUnavailable("injected")

    healthy, faulty = False, FaultyStorage(before)
    model = ScriptedModel()
    async with running_kernel(folder / "home", model=model, extra={"faulty": faulty}, recover=False) as kernel:
        await kernel.recover()
        await asyncio.sleep(0.05)
        healthy = True
    async with running_kernel(folder / "home") as kernel:
        session = await again(kernel, info)
        await until(lambda: session.info.state == "idle")
        events = await journal(session)
        assert ends(events)[-1] == "succeeded" and len(nudges(events)) == ends(events).count("interrupted") > 0
    return bool(failed)


@pytest.mark.parametrize("count", [1, 10, 12])
async def test_an_idle_root_is_told_who_was_cut(tmp_path: Path, count: int) -> None:
    """50: a root that was idle is told so, and which sessions below it were cut: ten at most, and how many more."""
    home, model = tmp_path / "home", ScriptedModel(responder=lambda request: Hang())
    async with running_kernel(home, model=model) as kernel:
        root = await a_session(kernel, tmp_path / "w")
        children = [await root.start_child("default") for _ in range(count)]
        await asyncio.gather(*(child.submit(Incoming(text="work")) for child in children))
        await until(lambda: model.active == count)
    async with running_kernel(home) as kernel:
        session = await again(kernel, root.info)
        await until(lambda: session.info.state == "idle")
        (text,) = nudges(await journal(session))
        names = sorted(child.info.id for child in children)
        listed = ", ".join(names[:10]) + (f" (+{count - 10} more)" if count > 10 else "")
        assert re.fullmatch(
            r"\[System\] The server restarted at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\. You were idle, but these sessions in"
            rf" your session tree were mid-run and were cut off: {re.escape(listed)}\.",
            text,
        )


async def test_a_shutdown_leaves_the_run_to_the_next_boot(tmp_path: Path) -> None:
    """53: a shutdown puts down what runs, keeps its run row, and leaves the half answer out of the history."""
    home, model = tmp_path / "home", ScriptedModel([Answer("whole"), Hang("half")])
    async with running_kernel(home, model=model) as kernel:
        idle, running = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        await idle.prompt(Incoming(text="question")).result
        await running.submit(Incoming(text="question"))
        await until(lambda: model.active)
        await asyncio.sleep(0.02)
        before = [await journal(idle), await journal(running)]
    async with running_kernel(home, recover=False) as kernel:
        await kernel.host.workspaces.open(tmp_path / "w")
        database = kernel.workspaces.seats[idle.info.workspace].database
        assert await rows(database, "SELECT session, landed FROM runs") == [(running.info.id, 1)]
        assert await rows(database, "SELECT session, text FROM partials") == [(running.info.id, "half")]
        names = idle.info.id, running.info.id  # whose journals are looked at unopened: who opens one takes it up
        assert [await database.read(partial(read, session=name)) for name in names] == before
        await kernel.recover()
        session = await again(kernel, running.info)
        await until(lambda: session.info.state == "idle")
        assert [e.body.text for e in await journal(session) if isinstance(e.body, AssistantCut)] == ["half"]


async def rows(database: Any, sql: str) -> list[Any]:
    return await database.read(lambda tx: list(tx.execute(sql)))
