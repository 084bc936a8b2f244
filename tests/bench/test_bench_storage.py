"""How many events sessions write into their journals, beside raw group commit: figures, never an assertion on them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from halo_kernel import Migration, Place, Session, Tx
from halo_kernel.sqlite import SqliteStorage
from halo_kernel.testing import a_session, running_kernel

from .table import Row, print_table, print_title, quantile

SCHEMA = """
CREATE TABLE sessions(id INTEGER PRIMARY KEY, head INTEGER NOT NULL DEFAULT 0);
CREATE TABLE events(session INTEGER, seq INTEGER, at INTEGER, kind TEXT, body TEXT, PRIMARY KEY(session, seq));
"""
SESSIONS = "INSERT INTO sessions(id) VALUES (?)"
HEAD = "UPDATE sessions SET head = head + 1 WHERE id = ? RETURNING head"
INSERT = "INSERT INTO events(session, seq, at, kind, body) VALUES (?, ?, 0, 'bench.note', ?)"
TEXT = "x" * 960
ROUNDS, ALONE, MANY = 3, 200, 8_000
RAW = "one connection in a bare loop, the same two statements an event, as many events a transaction as sessions write"


@dataclass(frozen=True, kw_only=True)
class Written:
    """What writing took: seconds of each event until it was durable, and of all of them together."""

    each: list[float]
    wall: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return len(self.each) / self.wall


def together(rounds: Sequence[Written]) -> Written:
    """Return several rounds as one."""
    return Written(each=[each for one in rounds for each in one.each], wall=sum(one.wall for one in rounds))


def raw(folder: Path, *, sessions: int, count: int) -> Written:
    """Write events of 1 KB, `sessions` of them in a transaction."""
    connection = apsw.Connection(str(folder / "raw.db"))
    list(connection.execute("PRAGMA journal_mode=WAL"))
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(SCHEMA)
    connection.executemany(SESSIONS, [(session,) for session in range(sessions)])
    each: list[float] = []
    began = time.perf_counter()
    for _ in range(count // sessions):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        for session in range(sessions):
            ((head,),) = connection.execute(HEAD, (session,))
            connection.execute(INSERT, (session, head, TEXT))
        connection.execute("COMMIT")
        each += [time.perf_counter() - start] * sessions
    wall = time.perf_counter() - began
    connection.close()
    return Written(each=each, wall=wall)


async def engine(folder: Path, *, sessions: int, count: int) -> Written:
    """Let so many callers of the storage engine write the same rows, each the next when its last one is durable."""
    place = Place(name="engine", scope="global", directory=folder)
    database = await SqliteStorage().open(place, [Migration(version=1, sql=SCHEMA)])

    def make(tx: Tx) -> None:
        for session in range(sessions):
            tx.execute(SESSIONS, (session,))

    async def caller(session: int) -> None:
        def write(tx: Tx) -> None:
            row = tx.one(HEAD, (session,))
            assert row is not None
            tx.execute(INSERT, (session, row[0], TEXT))

        for _ in range(count // sessions):
            start = time.perf_counter()
            await database.write(write)
            each.append(time.perf_counter() - start)

    each: list[float] = []
    await database.write(make)
    began = time.perf_counter()
    await asyncio.gather(*map(caller, range(sessions)))
    wall = time.perf_counter() - began
    await database.close()
    return Written(each=each, wall=wall)


async def journals(folder: Path, *, sessions: int, count: int) -> Written:
    """Let so many sessions of a kernel append events of the same size, each the next when its last one is durable."""

    async def append(session: Session) -> None:
        for _ in range(count // sessions):
            start = time.perf_counter()
            await session.append("bench.note", {"text": TEXT})
            each.append(time.perf_counter() - start)

    each: list[float] = []
    async with running_kernel(folder / "home") as kernel:
        made = [await a_session(kernel, folder / "workspace") for _ in range(sessions)]
        began = time.perf_counter()
        await asyncio.gather(*map(append, made))
        return Written(each=each, wall=time.perf_counter() - began)


@pytest.mark.timeout(120)
async def test_storage(tmp_path: Path) -> None:
    """Print what the journal and the storage engine write with one session and with fifty."""
    for sessions, count in ((1, ALONE), (50, MANY)):
        floors, journaled, stored = [], [], []
        for number in range(ROUNDS):
            folder = tmp_path / f"{sessions}-{number}"
            folder.mkdir()
            floors.append(raw(folder, sessions=sessions, count=count))
            journaled.append(await journals(folder, sessions=sessions, count=count))
            stored.append(await engine(folder, sessions=sessions, count=count))
        floor = together(floors)
        print_title(f"Writing events of 1 KB, {sessions} at once, each durable before the next of its session")
        print_table(RAW, [*_rows("journal", together(journaled), floor), *_rows("engine", together(stored), floor)])


def _rows(name: str, written: Written, floor: Written) -> list[Row]:
    return [
        Row(name=f"{name}, events", figure=written.rate, floor=floor.rate, unit="/s"),
        *(
            Row(
                name=f"{name}, until durable, p{share * 100:.0f}",
                figure=quantile(written.each, share) * 1e3,
                floor=quantile(floor.each, share) * 1e3,
                unit="ms",
            )
            for share in (0.5, 0.99)
        ),
    ]
