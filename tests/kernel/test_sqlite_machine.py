"""The engine against a dict: any sequence of batches, failures, reads and reopenings."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from halo_kernel import Migration, Place, Tx
from halo_kernel.sqlite import SqliteStorage

SCHEMA = """
CREATE TABLE kv(key INTEGER PRIMARY KEY, value INTEGER NOT NULL CHECK (value < 90));
CREATE TRIGGER ends BEFORE UPDATE ON kv WHEN NEW.value = 80 BEGIN SELECT RAISE(ROLLBACK, 'ended'); END;
"""
KEYS = st.integers(0, 5)
VALUES = st.one_of(st.integers(0, 9), st.sampled_from([80, 90]))
OPERATIONS = st.tuples(st.sampled_from(["add", "set", "drop", "fail", "swallow"]), KEYS, VALUES)


class Wanted(Exception):
    """Raised by a function on purpose."""


def function(operation: str, key: int, value: int) -> Callable[[Tx], int]:
    """Return a write; 80 ends the transaction, 90 breaks a rule, an existing key breaks another."""

    def write(tx: Tx) -> int:
        if operation == "drop":
            tx.execute("DELETE FROM kv WHERE key = ?", (key,))
        elif operation == "set":
            tx.execute("UPDATE kv SET value = ? WHERE key = ?", (value, key))
        elif operation == "swallow":
            try:
                tx.execute("INSERT INTO kv(key, value) VALUES (?, ?)", (key, value))
            except Exception:
                return -1
        else:
            tx.execute("INSERT INTO kv(key, value) VALUES (?, ?)", (key, value))
        if operation == "fail":
            raise Wanted
        row = tx.one("SELECT count(*) FROM kv")
        assert row is not None
        return int(row[0])

    return write


def expect(model: dict[int, int], operation: str, key: int, value: int) -> int | None:
    """Change the model as the write should have; return its result, None when it raises."""
    if operation == "drop":
        model.pop(key, None)
    elif operation == "set":
        if key in model and value >= 80:
            return None
        if key in model:
            model[key] = value
    elif key in model or value == 90:
        return -1 if operation == "swallow" else None
    elif operation == "fail":
        return None
    else:
        model[key] = value
    return len(model)


class Storage(RuleBasedStateMachine):
    """Batches of writes on a real file, and a dict that says what must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="halo-storage-"))
        self.model: dict[int, int] = {}
        self.alone = False
        self.database: Any = self.run(self.open())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 30))

    async def open(self) -> Any:
        place = Place(name="halo", scope="global", directory=self.folder)
        return await SqliteStorage(alone=self.alone).open(place, [Migration(version=1, sql=SCHEMA)])

    @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=12), cancelled=st.sets(st.integers(0, 11), max_size=2))
    def batch(self, operations: list[tuple[str, int, int]], cancelled: set[int]) -> None:
        expected = [expect(self.model, *operation) for operation in operations]
        for number, result in enumerate(self.run(self.write(operations, cancelled))):
            if isinstance(result, asyncio.CancelledError):
                assert number in cancelled
            elif expected[number] is None:
                assert isinstance(result, Exception), (operations[number], result)
            else:
                assert result == expected[number], (operations[number], result)

    async def write(self, operations: list[tuple[str, int, int]], cancelled: set[int]) -> list[Any]:
        go = threading.Event()
        busy = asyncio.ensure_future(self.database.write(lambda _: go.wait(10)))
        await asyncio.sleep(0)
        tasks = [asyncio.ensure_future(self.database.write(function(*operation))) for operation in operations]
        await asyncio.sleep(0)
        for number in cancelled & set(range(len(tasks))):
            tasks[number].cancel()
        go.set()
        await busy
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await self.database.write(lambda tx: None)  # what nobody waits for any more is written by then
        return results

    @rule(alone=st.booleans())
    def reopen(self, alone: bool) -> None:
        self.run(self.database.close())
        self.alone = alone
        self.database = self.run(self.open())

    @precondition(lambda self: self.model)
    @rule(key=KEYS)
    def read_one(self, key: int) -> None:
        row = self.run(self.database.read(lambda tx: tx.one("SELECT value FROM kv WHERE key = ?", (key,))))
        assert row == ((self.model[key],) if key in self.model else None)

    @invariant()
    def same(self) -> None:
        rows = self.run(self.database.read(lambda tx: list(tx.execute("SELECT key, value FROM kv"))))
        assert dict(rows) == self.model

    def teardown(self) -> None:
        self.run(self.database.close())
        self.loop.close()
        shutil.rmtree(self.folder)


Storage.TestCase.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestStorage = Storage.TestCase
