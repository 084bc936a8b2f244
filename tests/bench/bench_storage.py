"""Print what group commit gives at 1 and 50 callers, beside a bare apsw loop in the same run: figures, no assertion.

Run it with `python tests/bench/bench_storage.py`; the files lie in a temporary folder (`TMPDIR` chooses the disk).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from halo_kernel import Migration, Place, Tx
from halo_kernel.sqlite import SqliteStorage

SCHEMA = "CREATE TABLE events(id INTEGER PRIMARY KEY, session TEXT, at REAL, body TEXT)"
INSERT = "INSERT INTO events(session, at, body) VALUES (?, ?, ?)"
BODY = '{"type":"message","data":"' + "x" * 960 + '"}'
ROWS = (("s", 0.0, BODY),)


def report(name: str, taken: list[float], wall: float) -> None:
    """Print one line: medians and the slowest hundredth in milliseconds, and the rate."""
    taken.sort()
    p50, p99 = taken[len(taken) // 2] * 1e3, taken[int(len(taken) * 0.99)] * 1e3
    print(f"{name:44} p50 {p50:7.3f} ms  p99 {p99:7.3f} ms  {len(taken) / wall:9,.0f}/s", flush=True)


def bare(folder: Path, *, count: int, batch: int) -> None:
    """Time a plain loop on one connection: the floor."""
    connection = apsw.Connection(str(folder / f"bare{batch}.db"))
    list(connection.execute("PRAGMA journal_mode=WAL"))
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(SCHEMA)
    taken: list[float] = []
    began = time.perf_counter()
    for _ in range(count // batch):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(batch):
            connection.execute(INSERT, ROWS[0])
        connection.execute("COMMIT")
        taken += [time.perf_counter() - start] * batch
    report(f"bare apsw loop, {batch} a transaction", taken, time.perf_counter() - began)
    connection.close()


def insert(tx: Tx) -> None:
    """Write one event of 1 KiB."""
    tx.execute(INSERT, ROWS[0])


def select(tx: Tx) -> object:
    """Read one event by its key."""
    return tx.one("SELECT body FROM events WHERE id = ?", (1,))


async def engine(folder: Path, *, callers: int, each: int) -> None:
    """Time the engine with that many callers, first writing, then reading."""
    place = Place(name=f"engine{callers}", scope="global", directory=folder)
    database = await SqliteStorage().open(place, [Migration(version=1, sql=SCHEMA)])

    async def measure(name: str, call: Callable[[], object]) -> None:
        taken: list[float] = []

        async def caller() -> None:
            for _ in range(each):
                start = time.perf_counter()
                await call()  # type: ignore[misc]
                taken.append(time.perf_counter() - start)

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        report(f"engine, {callers} callers, {name}", taken, time.perf_counter() - began)

    await measure("write", lambda: database.write(insert))
    await measure("read", lambda: database.read(select))
    await database.close()


def main() -> None:
    """Print everything."""
    with tempfile.TemporaryDirectory(prefix="halo-bench-") as name:
        folder = Path(name)
        bare(folder, count=500, batch=1)
        asyncio.run(engine(folder, callers=1, each=500))
        bare(folder, count=10_000, batch=50)
        asyncio.run(engine(folder, callers=50, each=200))


if __name__ == "__main__":
    main()
