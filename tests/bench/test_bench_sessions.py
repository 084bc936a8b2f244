"""Long sessions, many sessions, long journals: figures beside the bars that they are held to, never an assertion."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import halo_compaction
from halo_kernel import OPERATOR, Incoming, Kernel, ModelRequest, Session
from halo_kernel.testing import Answer, Pieces, ScriptedModel, a_session, running_kernel, until

from .machine import resident_bytes
from .table import Row, print_table, print_title, quantile

TURNS, MANY, WAITING, OPENED = 1_000, 5_000, 500, 5_000
DELAY, STEP = 2.0, 0.005
BIG, RESULT = 200 * 2**20, 60_000


class Forgetful(list[ModelRequest]):
    """Where a model notes nothing: what it was sent would be held, and looked at by the garbage collector."""

    def append(self, request: ModelRequest) -> None:
        pass


def answering() -> ScriptedModel:
    """Return a model without delay."""
    return ScriptedModel(responder=answer, requests=Forgetful())


def answer(request: ModelRequest) -> Answer:
    return Answer("an answer of a few words, as models give them when they are asked for little")


@asynccontextmanager
async def watched_loop() -> AsyncGenerator[list[float]]:
    """Collect by how many seconds the event loop is late, every 5 ms."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + STEP
            await asyncio.sleep(STEP)
            late.append(max(0.0, time.perf_counter() - due))

    ticking = asyncio.create_task(tick())
    try:
        yield late
    finally:
        ticking.cancel()


async def bytes_of(kernel: Kernel, session: Session) -> int:
    database = kernel.workspaces.seats[session.info.workspace].database
    sql = "SELECT coalesce(sum(length(body)), 0) FROM events WHERE session = ?"
    (found,) = await database.read(lambda tx: tx.one(sql, (session.info.id,))) or (0,)
    return int(found)


async def turn(session: Session, number: int) -> float:
    began = time.perf_counter()
    await session.prompt(Incoming(text=f"message {number} of this conversation")).result
    return time.perf_counter() - began


@pytest.mark.timeout(300)
async def test_many_that_wait(tmp_path: Path) -> None:
    """Print how long 500 sessions take that each wait two seconds for a model, how late the loop is, and memory."""
    model = ScriptedModel(responder=lambda request: Pieces(["an ", "answer"], DELAY / 2))
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        sessions = [await a_session(kernel, tmp_path / "w") for _ in range(WAITING)]
        gc.collect()
        before = resident_bytes(os.getpid())
        async with watched_loop() as late:
            began = time.perf_counter()
            handles = [session.prompt(Incoming(text="go")) for session in sessions]
            await asyncio.sleep(DELAY / 2)
            held = resident_bytes(os.getpid()) - before
            await asyncio.gather(*(handle.result for handle in handles))
            took = time.perf_counter() - began
    print_title(f"{WAITING} sessions at once, each on a model that takes {DELAY:g} s")
    print_table(
        "the bar: 4 s, 50 ms, 200 kB",
        [
            Row(name="until all are answered", figure=took, floor=4, unit="s"),
            Row(name="the loop is late, p99", figure=quantile(late, 0.99) * 1e3, floor=50, unit="ms"),
            Row(name="memory of one that waits", figure=held / WAITING / 1e3, floor=200, unit="kB"),
        ],
    )


@pytest.mark.timeout(600)
async def test_memory_after_many(tmp_path: Path) -> None:
    """Print what 5,000 sessions leave in memory that were opened, and closed again."""
    figures: list[tuple[int, int]] = []
    async with running_kernel(tmp_path / "home", model=answering()) as kernel:
        for number in range(OPENED):
            session = await a_session(kernel, tmp_path / "w")
            await session.close("abort")  # type: ignore[attr-defined]
            if number in (499, OPENED - 1):
                del session
                gc.collect()
                figures.append((number + 1, resident_bytes(os.getpid())))
    (early, before), (late, after) = figures
    print_title(f"{OPENED:,} sessions, opened and closed one after the other")
    print_table(
        f"after {early}",
        [
            Row(name=f"memory after {late:,}", figure=after / 2**20, floor=before / 2**20, unit="MiB"),
            Row(name="more for each", figure=(after - before) / (late - early) / 1e3, floor=0, unit="kB"),
        ],
    )


@pytest.mark.timeout(600)
async def test_a_long_session(tmp_path: Path) -> None:
    """Print what a turn costs at its 1st, 100th and 1,000th place, and how long a session of 5,000 messages takes."""
    seconds: list[float] = []
    sizes: list[int] = []
    async with running_kernel(tmp_path / "home", model=answering()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for number in range(TURNS):
            seconds.append(await turn(session, number))
            if number in (0, 1, TURNS - 2, TURNS - 1):
                sizes.append(await bytes_of(kernel, session))
        info = session.info
        for number in range(TURNS, MANY // 2):
            await turn(session, number)
    print_title("One session, a model without delay; the whole history goes to the model each time")
    first = quantile(seconds[:10], 0.5)
    places = {1: seconds[:10], 100: seconds[90:110], TURNS: seconds[-20:]}
    rows = [
        Row(
            name=f"turn {place}, median of its neighbours",
            figure=quantile(near, 0.5) * 1e3,
            floor=first * 1e3,
            unit="ms",
        )
        for place, near in places.items()
    ]
    rows.append(Row(name=f"journal of turn {TURNS}", figure=sizes[3] - sizes[2], floor=sizes[1] - sizes[0], unit="B"))
    async with running_kernel(tmp_path / "home", model=answering()) as kernel:
        began = time.perf_counter()
        session = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        opened = time.perf_counter() - began
        rows.append(Row(name=f"open a session of {MANY:,} messages", figure=opened * 1e3, floor=0, unit="ms"))
        rows.append(Row(name="its first turn", figure=await turn(session, 0) * 1e3, floor=first * 1e3, unit="ms"))
    print_table("the first ten turns of the session", rows)


@pytest.mark.timeout(300)
async def test_a_large_journal_is_compacted(tmp_path: Path) -> None:
    """Print how late the loop is while a session of 200 MB is compacted, and how long that takes."""
    model = ScriptedModel(responder=answer)
    async with running_kernel(tmp_path / "home", model=model, extra={"compaction": halo_compaction}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await turn(session, 0)
        await _grow(kernel, session)
        info = session.info
    async with running_kernel(tmp_path / "home", model=model, extra={"compaction": halo_compaction}) as kernel:
        session = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        began = time.perf_counter()
        await turn(session, 1)
        loaded = time.perf_counter() - began
        async with watched_loop() as late:
            began = time.perf_counter()
            await session.compact()
            took = time.perf_counter() - began
            size = await bytes_of(kernel, session)
    print_title(f"A journal of {size / 2**20:.0f} MB")
    print_table(
        "the bar of many sessions: 50 ms",
        [
            Row(name="its first turn after a start", figure=loaded, floor=0, unit="s"),
            Row(name="compacting it", figure=took, floor=0, unit="s"),
            Row(name="the loop is late meanwhile, p99", figure=quantile(late, 0.99) * 1e3, floor=50, unit="ms"),
        ],
    )


async def _grow(kernel: Kernel, session: Session) -> None:
    """Add messages and answers of 60,000 characters, written at once as past turns have left them."""
    database, name = kernel.workspaces.seats[session.info.workspace].database, session.info.id
    text = "0123456789" * (RESULT // 10)
    said = f'{{"v":1,"row":0,"key":"","text":"","content":"{text}","sender":"operator","stamp":""}}'
    told = f'{{"v":1,"reply":"r","content":[{{"type":"text","text":"{text}"}}],"stop":"end","model":"m"}}'
    sql = (
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
        " INSERT INTO events(session, seq, at, kind, turn, body)"
        " SELECT s.id, s.head + n, s.updated_at, iif(n % 2, 'input.added', 'assistant.message'), 'grown',"
        " iif(n % 2, ?, ?) FROM n, sessions s WHERE s.id = ?"
    )
    count = BIG // RESULT // 2 * 2
    await database.write(lambda tx: tx.one(sql, (count, said, told, name)))
    await database.write(lambda tx: tx.one("UPDATE sessions SET head = head + ? WHERE id = ?", (count, name)))


@pytest.mark.timeout(300)
async def test_recovery_after_a_crash(tmp_path: Path) -> None:
    """Print how soon after a start the first turn that a crash cut goes on, among 500 sessions that were cut."""
    home, model = tmp_path / "home", ScriptedModel(responder=answer)
    async with running_kernel(home, model=model) as kernel:
        sessions = [await a_session(kernel, tmp_path / "w") for _ in range(WAITING)]
        await asyncio.gather(*(session.prompt(Incoming(text="go")).result for session in sessions))
        workspace = sessions[0].info.workspace
        database = kernel.workspaces.seats[workspace].database
        await database.write(_cut)
        await kernel.workspaces.mark_busy(workspace)
    asked = model.requests[:]
    model.requests.clear()
    began = time.perf_counter()
    async with running_kernel(home, model=model, recover=False) as kernel:
        up = time.perf_counter() - began
        recovering = asyncio.create_task(kernel.recover())
        await until(lambda: model.requests, 60)
        first = time.perf_counter() - began
        await recovering
        await until(lambda: len(model.requests) >= len(asked), 60)
        whole = time.perf_counter() - began
    print_title(f"A start after a crash that cut {WAITING} turns")
    print_table(
        "the bar: 3 s",
        [
            Row(name="the kernel is up", figure=up, floor=3, unit="s"),
            Row(name="the first turn goes on", figure=first, floor=3, unit="s"),
            Row(name="the last one has been asked", figure=whole, floor=3, unit="s"),
        ],
    )


def _cut(tx) -> None:  # type: ignore[no-untyped-def]  # a transaction
    """Leave every session as a crash does in the middle of a turn."""
    rows: Sequence[tuple[str, str]] = list(
        tx.execute("SELECT session, turn FROM events WHERE kind = 'turn.ended' GROUP BY session")
    )
    tx.execute("DELETE FROM events WHERE kind = 'turn.ended'")
    tx.execute("UPDATE sessions SET head = head - 1")
    for session, turn_ in rows:
        tx.execute(
            "INSERT INTO runs(session, root, turn, boot, started_at) VALUES (?, ?, ?, 'dead', 0)",
            (session, session, turn_),
        )
