"""Storage that fails where a test says, on the real engine underneath."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ..contracts import Bell, Database, Lease, Migration, Place, Storage, Tx
from ..hookspecs import hook
from ..sqlite import SqliteStorage
from ..sqlite.engine import SqliteDatabase
from .rehearsal import Rehearsed, undone

T = TypeVar("T")
Before = Callable[[Place, int], Callable[[Tx], object] | None]


class FaultyStorage:
    """A plugin with a storage engine: `inner`, every write function run twice, and `before` asked ahead of each write.

    `before(place, number)` gets the database's place and the write's number, from 1 in each database. What it raises
    is raised in the write's place; a function that it returns is written first, as if another process had been quicker.
    It is asked on the event loop; assign it at any time. `pause` is how many seconds a reader waits for what it has
    read, so that others are quicker. `inner` is SQLite unless another engine is given, whose functions run in a write
    that is taken back, and then again.
    """

    def __init__(self, before: Before | None = None, *, pause: float = 0.0, inner: Storage | None = None) -> None:
        self.before = before
        self.pause = pause
        self._inner = inner or SqliteStorage()
        self.name = self._inner.name

    @hook
    def provide_storage(self) -> Sequence[Storage]:
        """This engine; the kernel takes it instead of its own."""
        return [self]

    async def open(self, place: Place, migrations: Sequence[Migration]) -> Database:
        """Open the real database behind one that fails."""
        return _Faulty(self, place, await self._inner.open(place, migrations))

    async def copy(self, place: Place, path: Path) -> None:
        """See `contracts.Storage`."""
        await self._inner.copy(place, path)

    def owns(self, path: str | int) -> bool:
        """See `contracts.Storage`."""
        return self._inner.owns(path)


class _Faulty:
    def __init__(self, storage: FaultyStorage, place: Place, inner: Database) -> None:
        self._storage = storage
        self._place = place
        self._inner = inner
        self._writes = 0

    async def write(self, fn: Callable[[Tx], T]) -> T:
        self._writes += 1
        before = self._storage.before
        quicker = before(self._place, self._writes) if before is not None else None
        if quicker is not None:
            await self._inner.write(quicker)
        if isinstance(self._inner, SqliteDatabase):
            return await self._inner.write(Rehearsed(fn))
        with suppress(Exception):  # others write in between, so what it gives need not be the same
            await self._inner.write(undone(fn))
        return await self._inner.write(fn)

    async def read(self, fn: Callable[[Tx], T]) -> T:
        result = await self._inner.read(fn)
        if self._storage.pause:
            await asyncio.sleep(self._storage.pause)
        return result

    async def lease(self, name: str) -> Lease:
        return await self._inner.lease(name)

    def notify(self, topic: str) -> None:
        self._inner.notify(topic)

    def listen(self, topic: str) -> Bell:
        return self._inner.listen(topic)

    async def backup(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        await self._inner.backup(path, progress=progress)

    async def scrub(self) -> None:
        await self._inner.scrub()

    async def close(self) -> None:
        await self._inner.close()
