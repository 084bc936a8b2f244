"""The contract suite for storage, on the kernel's own engine in each of its forms, and on engines that break it."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import ConstraintFailed, Migration, Place, Storage, Tx
from halo_kernel.sqlite import SqliteStorage
from halo_kernel.testing import FaultyStorage, StorageContract


class TestSqlite(StorageContract):
    """SQLite on a local disk."""

    @pytest.fixture
    def storage(self) -> Storage:
        return SqliteStorage()

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(name="contract", scope="global", directory=tmp_path / "data")


class TestSqliteAlone(TestSqlite):
    """SQLite as on a network file system."""

    @pytest.fixture
    def storage(self) -> Storage:
        return SqliteStorage(alone=True)


class TestFaulty(TestSqlite):
    """The kit's engine, which runs every function twice."""

    @pytest.fixture
    def storage(self) -> Storage:
        return FaultyStorage()


class TestSecret(TestSqlite):
    """SQLite where secrets lie."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(name="contract", scope="secret", directory=tmp_path / "secrets" / "contract")


class Broken:
    """An engine that hands out databases of SQLite in which one thing is wrong."""

    name: str = "sqlite"

    def __init__(self, wrong: Callable[[Any], Any]) -> None:
        self._wrong = wrong
        self._inner = SqliteStorage()

    async def open(self, place: Place, migrations: Sequence[Migration]) -> Any:
        return self._wrong(await self._inner.open(place, migrations))

    def owns(self, path: str | int) -> bool:
        return self._wrong is not owns_nothing and self._inner.owns(path)


class Wrapped:
    """A database that does what another does; a subclass differs."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class WritesHalf(Wrapped):
    async def write(self, fn: Callable[[Tx], Any]) -> Any:
        errors: list[Exception] = []

        def swallow(tx: Tx) -> Any:
            try:
                return fn(tx)
            except Exception as error:
                errors.append(error)

        result = await self.inner.write(swallow)
        if errors:
            raise errors[0]
        return result


class WritesInAnyOrder(Wrapped):
    async def write(self, fn: Callable[[Tx], Any]) -> Any:
        await asyncio.sleep(random.random() / 100)
        return await self.inner.write(fn)


class WritesLate(Wrapped):
    async def write(self, fn: Callable[[Tx], Any]) -> Any:
        async def later() -> Any:
            await asyncio.sleep(0.05 if fn.__qualname__.startswith("StorageContract") else 0)
            return await self.inner.write(fn)

        return await asyncio.shield(asyncio.ensure_future(later()))


class ReturnsAnotherRun(Wrapped):
    async def write(self, fn: Callable[[Tx], Any]) -> Any:
        if fn.__qualname__.endswith("count"):
            await self.inner.write(fn)
        return await self.inner.write(fn)


class LooseTx:
    def __init__(self, database: Any) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()

    def execute(self, sql: str, args: Sequence[Any] = ()) -> Any:
        read = self._database.read(lambda tx: list(tx.execute(sql, args)))
        return iter(asyncio.run_coroutine_threadsafe(read, self._loop).result(5))


class ReadsTwice(Wrapped):
    async def read(self, fn: Callable[[Tx], Any]) -> Any:
        return await asyncio.to_thread(fn, LooseTx(self.inner))  # type: ignore[arg-type]


class ReadsThatWrite(Wrapped):
    async def read(self, fn: Callable[[Tx], Any]) -> Any:
        return await self.inner.write(fn)


class LeasesForAll(Wrapped):
    async def lease(self, name: str) -> Any:
        await self.inner.write(lambda tx: tx.execute("UPDATE leases SET member = NULL"))
        return await self.inner.lease(name)


class DeafBells(Wrapped):
    def notify(self, topic: str) -> None:
        pass


class RingsForAll(Wrapped):
    def notify(self, topic: str) -> None:
        for each in ("one", "two"):
            self.inner.notify(each)


class NeverCloses(Wrapped):
    async def close(self) -> None:
        pass


class OpenBackups(Wrapped):
    async def backup(self, path: Path, **options: Any) -> None:
        await self.inner.backup(path, **options)
        path.chmod(0o644)


class BackupsAnywhere(Wrapped):
    async def backup(self, path: Path, **options: Any) -> None:
        if path.is_file():
            return
        await self.inner.backup(path, **options)


class ScrubsNothing(Wrapped):
    async def scrub(self) -> None:
        pass


class Unruled(Wrapped):
    """Raises another error for a broken constraint."""

    async def write(self, fn: Callable[[Tx], Any]) -> Any:
        try:
            return await self.inner.write(fn)
        except ConstraintFailed as error:
            raise ValueError(error.message) from error


def owns_nothing(database: Any) -> Any:
    """The engine does not know its files."""
    return database


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        (WritesHalf, "test_a_function_that_raises_is_undone_alone"),
        (WritesInAnyOrder, "test_writes_keep_the_order_of_their_calls"),
        (WritesLate, "test_a_cancelled_caller_leaves_all_or_nothing"),
        (ReturnsAnotherRun, "test_a_function_that_runs_twice_counts_once"),
        (ReadsTwice, "test_a_read_is_one_snapshot"),
        (ReadsThatWrite, "test_a_read_writes_nothing"),
        (LeasesForAll, "test_a_lease_is_ours_until_it_is_released"),
        (LeasesForAll, "test_a_held_lease_is_refused_to_others"),
        (DeafBells, "test_a_bell_rings_for_its_topic"),
        (RingsForAll, "test_a_bell_rings_for_its_topic"),
        (NeverCloses, "test_closing_finishes_and_refuses"),
        (OpenBackups, "test_a_backup_is_a_private_file"),
        (BackupsAnywhere, "test_a_backup_over_its_own_files_is_refused"),
        (ScrubsNothing, "test_what_was_scrubbed_is_in_no_backup"),
        (Unruled, "test_a_broken_constraint_is_named"),
        (owns_nothing, "test_it_knows_its_own_files"),
    ],
)
async def test_the_suite_finds_what_is_broken(tmp_path: Path, wrong: Callable[[Any], Any], test: str) -> None:
    """An engine that breaks one promise fails the test of that promise, with a sentence for its author."""
    place = Place(name="contract", scope="global", directory=tmp_path / "data")
    method = getattr(StorageContract(), test)
    wanted = inspect.signature(method).parameters
    given = {"tmp_path": tmp_path, "sql": "INSERT INTO parts(task) VALUES (7)"}
    options = {name: value for name, value in given.items() if name in wanted}
    with pytest.raises((AssertionError, pytest.fail.Exception)) as found:
        await method(Broken(wrong), place, **options)
    assert len(str(found.value)) > 10
