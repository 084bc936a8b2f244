"""One open database: what a write and a read promise to their callers."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from halo_kernel import BadInput, Database, Migration, Place, StorageUnavailable, Tx
from halo_kernel.sqlite import SqliteStorage, is_own_file
from halo_kernel.sqlite.engine import SqliteDatabase
from halo_kernel.testing import FaultyStorage

SCHEMA = """
CREATE TABLE kv(key TEXT PRIMARY KEY, value);
CREATE TABLE child(parent TEXT REFERENCES kv(key) DEFERRABLE INITIALLY DEFERRED);
CREATE TRIGGER ends BEFORE INSERT ON kv WHEN NEW.key = 'end it all' BEGIN SELECT RAISE(ROLLBACK, 'ended'); END;
"""
MIGRATIONS = [Migration(version=1, sql=SCHEMA)]


async def _open(folder: Path, **options: Any) -> SqliteDatabase:
    place = Place(name="halo", scope="workspace", directory=folder)
    return await SqliteStorage(**options).open(place, MIGRATIONS)


@pytest.fixture(params=[False, True], ids=["shared", "alone"])
async def database(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SqliteDatabase]:
    """A database as it is opened on a local disk, and as on a network one."""
    database = await _open(tmp_path, alone=request.param)
    yield database
    await database.close()


def put(key: str, value: Any = None) -> Callable[[Tx], str]:
    """Return a function that writes one row."""

    def write(tx: Tx) -> str:
        tx.execute("INSERT INTO kv(key, value) VALUES (?, ?)", (key, value))
        return key

    return write


def put_and_fail(key: str) -> Callable[[Tx], None]:
    """Return a function that writes one row, then raises."""

    def write(tx: Tx) -> None:
        put(key)(tx)
        raise LookupError(key)

    return write


def _keys(tx: Tx) -> list[str]:
    return [row[0] for row in tx.execute("SELECT key FROM kv ORDER BY key")]


async def batch(database: Database, *functions: Callable[[Tx], Any]) -> list[Any]:
    """Write all of them in one batch: they wait while the writer is busy."""
    go = threading.Event()
    busy = asyncio.ensure_future(database.write(lambda _: go.wait(10)))
    await asyncio.sleep(0.02)
    writes = [asyncio.ensure_future(database.write(function)) for function in functions]
    await asyncio.sleep(0.02)
    go.set()
    await busy
    return await asyncio.gather(*writes, return_exceptions=True)


async def test_write_returns_after_the_commit(database: SqliteDatabase) -> None:
    """What a write returned is what its function returned, and any later read sees its rows."""
    assert await database.write(put("a", 1)) == "a"
    assert await database.read(lambda tx: tx.one("SELECT value FROM kv WHERE key = ?", ("a",))) == (1,)
    assert await database.read(lambda tx: tx.one("SELECT value FROM kv WHERE key = 'b'")) is None
    returning = "UPDATE kv SET value = value + 1 RETURNING value"
    assert await database.write(lambda tx: list(tx.execute(returning))) == [(2,)]


async def test_a_function_that_raises_rolls_back_alone(database: SqliteDatabase) -> None:
    """In one batch, what raises loses its own rows and gets its own error; the others commit."""
    results = await batch(database, put("a"), put_and_fail("b"), put("c"), put("a"), put("d"))
    assert results[0] == "a"
    assert results[2] == "c"
    assert results[4] == "d"
    assert isinstance(results[1], LookupError)
    assert "UNIQUE" in str(results[3])
    assert await database.read(_keys) == ["a", "c", "d"]


async def test_a_batch_is_one_transaction(database: SqliteDatabase) -> None:
    """Functions that wait together are committed together, and run in the order of their calls."""
    size = await database.read(lambda tx: tx.one("SELECT count(*) FROM kv"))
    assert size == (0,)
    seen: list[int] = []

    def numbered(number: int) -> Callable[[Tx], int]:
        def write(tx: Tx) -> int:
            seen.append(number)
            put(str(number))(tx)
            return number

        return write

    assert await batch(database, *(numbered(number) for number in range(300))) == list(range(300))
    assert seen == list(range(300))


async def test_an_ended_transaction_is_replayed(database: SqliteDatabase) -> None:
    """When SQLite ends the transaction half way, nothing is reported of it and each function runs again alone."""
    results = await batch(database, put("a"), put("end it all"), put("b"), put_and_fail("c"), put("d"))
    assert [results[0], results[2], results[4]] == ["a", "b", "d"]
    assert "ended" in str(results[1])
    assert isinstance(results[3], LookupError)
    assert await database.read(_keys) == ["a", "b", "d"]


async def test_a_swallowed_end_commits_nothing(database: SqliteDatabase) -> None:
    """A function that swallows the end of its transaction and goes on neither writes nor succeeds."""

    def stubborn(tx: Tx) -> str:
        for key in ("x", "end it all", "y"):
            try:
                put(key)(tx)
            except Exception:
                continue
        return "all well"

    results = await batch(database, put("a"), stubborn, put("b"))
    assert [results[0], results[2]] == ["a", "b"]
    assert isinstance(results[1], StorageUnavailable)
    assert isinstance(await asyncio.gather(database.write(stubborn), return_exceptions=True), list)
    assert await database.read(_keys) == ["a", "b"]


async def test_a_deferred_violation_fails_its_own_function(database: SqliteDatabase) -> None:
    """A foreign key that is checked at the commit fails the function that broke it and no other."""
    orphan = "INSERT INTO child(parent) VALUES ('nobody')"
    results = await batch(database, put("a"), lambda tx: tx.execute(orphan), put("b"))
    assert [results[0], results[2]] == ["a", "b"]
    assert "FOREIGN KEY" in str(results[1])
    assert await database.read(lambda tx: tx.one("SELECT count(*) FROM child")) == (0,)


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN",
        "COMMIT",
        "  /* */ ROLLBACK",
        "SAVEPOINT mine",
        "RELEASE job",
        "ATTACH ':memory:' AS other",
        "PRAGMA user_version = 7",
        "PRAGMA synchronous = OFF",
        "PRAGMA wal_checkpoint",
        "INSERT INTO kv(key) VALUES ('tail'); COMMIT",
    ],
)
async def test_functions_never_begin_or_commit(database: SqliteDatabase, sql: str) -> None:
    """Statements that begin, end, attach or set are refused, cached or not, and leave the batch whole."""
    for _ in range(2):
        results = await batch(database, put("a"), lambda tx: tx.execute(sql), put("b"))
        assert [results[0], results[2]] == ["a", "b"]
        assert isinstance(results[1], BadInput)
        with pytest.raises(BadInput):
            await database.read(lambda tx: tx.execute(sql))
        assert await database.read(_keys) == ["a", "b"]
        await database.write(lambda tx: tx.execute("DELETE FROM kv"))


async def test_reads_do_not_write(database: SqliteDatabase) -> None:
    """A function given to read that writes is told so."""
    with pytest.raises(BadInput, match="does not write"):
        await database.read(put("a"))
    assert await database.write(put("b")) == "b"
    assert await database.read(_keys) == ["b"]


async def test_a_read_is_one_snapshot(tmp_path: Path) -> None:
    """Commits during a read do not show in it."""
    database = await _open(tmp_path, alone=False)
    began, go = threading.Event(), threading.Event()

    def slow(tx: Tx) -> tuple[list[str], list[str]]:
        before = _keys(tx)
        began.set()
        go.wait(10)
        return before, _keys(tx)

    reading = asyncio.ensure_future(database.read(slow))
    await asyncio.to_thread(began.wait, 10)
    await database.write(put("a"))
    assert await database.read(_keys) == ["a"], "the second reader is free"
    go.set()
    assert await reading == ([], [])
    await database.close()


@pytest.mark.parametrize(
    ("value", "rule"),
    [("a\0b", r"U\+0000"), ("\ud800", "surrogates"), (2**63, "int"), (float("nan"), "NaN")],
)
async def test_values_that_no_engine_keeps(database: SqliteDatabase, value: Any, rule: str) -> None:
    """Text with U+0000 or half a character, numbers beyond 64 bits and NaN are refused, and nothing is written."""
    with pytest.raises(BadInput, match=rule):
        await database.write(put("a", value))
    with pytest.raises(BadInput):
        await database.read(lambda tx: tx.one("SELECT ?", (value,)))
    assert await database.read(_keys) == []


async def test_values_come_back(database: SqliteDatabase) -> None:
    """Text, bytes, 64-bit integers, floats and NULL come back as they were given."""
    values = ["", "日本 𝄞 \x01", b"\0\xff", b"", 2**63 - 1, -(2**63), 0.1, None]
    for number, value in enumerate(values):
        await database.write(put(str(number), value))
    rows = await database.read(lambda tx: list(tx.execute("SELECT value FROM kv ORDER BY key")))
    assert [row[0] for row in rows] == values


async def test_rows_outlive_their_function_but_the_transaction_does_not(database: SqliteDatabase) -> None:
    """Rows are read whole; a Tx that is kept is refused afterwards."""
    await database.write(put("a"))
    kept: list[Tx] = []

    def keep(tx: Tx) -> Iterator[Any]:
        kept.append(tx)
        return tx.execute("SELECT key FROM kv")

    assert list(await database.read(keep)) == [("a",)]
    with pytest.raises(RuntimeError, match="transaction is over"):
        kept[0].execute("SELECT 1")


@pytest.mark.parametrize("raised", [StopIteration("x"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()])
async def test_any_exception_reaches_the_caller(database: SqliteDatabase, raised: BaseException) -> None:
    """What is no ordinary error arrives wrapped, the caller's task is not taken for cancelled, and the thread lives."""

    def fail(_: Tx) -> None:
        raise raised

    for call in (database.write, database.read):
        with pytest.raises(RuntimeError) as wrapped:
            await call(fail)
        assert wrapped.value.__cause__ is raised
    assert await database.write(put("a")) == "a"


async def test_coroutine_functions_are_refused(database: SqliteDatabase) -> None:
    """A coroutine function would run after the transaction."""

    async def late(_: Tx) -> None:
        raise AssertionError("never runs")

    with pytest.raises(TypeError, match="plain"):
        await database.write(late)


async def test_a_cancelled_caller_does_not_stop_the_write(database: SqliteDatabase) -> None:
    """A write whose caller is cancelled is committed, at any moment of the cancellation."""
    for number in range(20):
        task = asyncio.ensure_future(database.write(put(f"{number:02}")))
        for _ in range(number % 4 + 1):
            await asyncio.sleep(0)
        task.cancel()
    await database.write(lambda _: None)
    assert len(await database.read(_keys)) == 20


async def test_close_finishes_what_was_accepted(tmp_path: Path) -> None:
    """Close waits for accepted work, is harmless twice, and refuses everything after."""
    database = await _open(tmp_path)
    writes = [asyncio.ensure_future(database.write(put(str(number)))) for number in range(50)]
    reads = [asyncio.ensure_future(database.read(_keys)) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.gather(database.close(), database.close())
    assert len([await write for write in writes]) == 50
    assert len([await read for read in reads]) == 20
    for call in (database.write, database.read):
        with pytest.raises(StorageUnavailable, match="closed"):
            await call(put("late"))
    with pytest.raises(StorageUnavailable, match="closed"):
        database.listen("topic")
    with pytest.raises(StorageUnavailable, match="closed"):
        await database.lease("tree:1")
    await database.close()
    assert [path.name for path in tmp_path.glob("halo.db*")] == ["halo.db"], "all is in the one file"


class LateQueue(SimpleQueue[Any]):
    """A queue whose writers go on long after a reader has what they put."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put(item)
        time.sleep(0.05)


async def test_closing_ends_however_late_its_caller_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing comes to its end, though all that was accepted is done before the caller takes its next breath."""
    monkeypatch.setattr("halo_kernel.sqlite.engine.SimpleQueue", LateQueue)
    for use in (0, 1, 3):
        database = await _open(tmp_path)
        await asyncio.gather(*(database.write(lambda _: None) for _ in range(use)))
        await asyncio.wait_for(database.close(), 10)


async def test_close_leaves_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    """Opening and closing many times gains nothing."""

    async def cycle() -> None:
        database = await _open(tmp_path)
        await asyncio.gather(database.write(lambda _: None), *(database.read(_keys) for _ in range(4)))
        await database.lease("tree:1")
        database.listen("topic")
        await database.close()

    await cycle()
    gc.collect()
    before = threading.active_count(), len(os.listdir("/dev/fd"))
    for _ in range(10):
        await cycle()
    gc.collect()
    for _ in range(100):
        if threading.active_count() <= before[0]:
            break
        await asyncio.sleep(0.01)
    assert (threading.active_count(), len(os.listdir("/dev/fd"))) == before


async def test_a_cancelled_open_leaves_nothing_open(tmp_path: Path) -> None:
    """Whoever stops waiting for an opening database leaves no thread, and its files are nobody's afterwards."""
    before = threading.active_count()
    for rounds in range(5):
        task = asyncio.ensure_future(_open(tmp_path))
        for _ in range(rounds + 1):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await (await task).close()  # where it was quicker
    for _ in range(500):
        if threading.active_count() <= before and not is_own_file(tmp_path / "halo.db"):
            break
        await asyncio.sleep(0.01)
    assert threading.active_count() <= before
    assert not is_own_file(tmp_path / "halo.db")
    database = await _open(tmp_path)
    assert await database.write(put("a")) == "a"
    await database.close()


async def test_a_process_that_forgets_to_close_ends(tmp_path: Path) -> None:
    """An open database keeps no process from ending, and what it acknowledged is there."""
    script = """
import asyncio, pathlib, sys
from halo_kernel import Migration, Place
from halo_kernel.sqlite import SqliteStorage, is_own_file

async def main():
    place = Place(name="halo", scope="workspace", directory=pathlib.Path(sys.argv[1]))
    database = await SqliteStorage().open(place, [Migration(version=1, sql="CREATE TABLE kv(key, value)")])
    database.listen("topic")
    await database.lease("tree:1")
    await database.read(lambda tx: None)
    await database.write(lambda tx: tx.execute("INSERT INTO kv(key) VALUES ('a')"))

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, tmp_path, stderr=subprocess.PIPE)
    _, said = await asyncio.wait_for(process.communicate(), 20)
    assert (process.returncode, said) == (0, b"")
    database = await _open(tmp_path)
    assert await database.read(_keys) == ["a"]
    assert (await database.lease("tree:1")).epoch == 2
    await database.close()


async def test_loops_of_several_threads(tmp_path: Path) -> None:
    """One database serves callers on loops of several threads, each woken on its own."""
    database = await _open(tmp_path)

    def elsewhere(name: str) -> list[str]:
        async def writes() -> list[str]:
            return await asyncio.gather(*(database.write(put(f"{name}.{number}")) for number in range(20)))

        return asyncio.run(writes())

    results = await asyncio.gather(*(asyncio.to_thread(elsewhere, name) for name in "abc"))
    assert [len(result) for result in results] == [20, 20, 20]
    assert len(await database.read(_keys)) == 60
    await database.close()


async def test_a_file_that_goes_away_is_noticed(tmp_path: Path) -> None:
    """No write is acknowledged once the file was removed or replaced."""
    database = await _open(tmp_path)
    await database.write(put("a"))
    moved = tmp_path / "halo.db"
    moved.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageUnavailable, match="moved or removed"):
        await database.write(put("b"))
    moved.write_bytes(b"")
    with pytest.raises(StorageUnavailable, match="moved or removed"):
        await database.write(put("b"))
    await database.close()


async def test_run_twice_finds_impure_functions(tmp_path: Path) -> None:
    """In the kit's storage what gives something else the second time is refused; what is pure works as ever."""
    database = await FaultyStorage().open(Place(name="halo", scope="workspace", directory=tmp_path), MIGRATIONS)
    calls: list[int] = []

    def counts(tx: Tx) -> str:
        calls.append(1)
        return put(f"key {len(calls)}")(tx)

    assert await database.write(put("pure")) == "pure"
    with pytest.raises(AssertionError, match=r"counts is not pure"):
        await database.write(counts)
    with pytest.raises(AssertionError, match="not pure"):
        await database.write(lambda tx: [calls.append(1), len(calls)])
    with pytest.raises(LookupError):
        await database.write(put_and_fail("raises"))
    results = await batch(database, put("a"), put("end it all"), put("b"))
    assert [results[0], results[2]] == ["a", "b"]
    assert await database.write(lambda tx: object()) is not None
    assert await database.read(_keys) == ["a", "b", "pure"]
    await database.close()
