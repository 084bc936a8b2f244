"""The engine: opens databases, and what an open one gives."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..clock import SystemClock
from ..contracts import Bell, Clock, Lease, Migration, Place, Tx
from ..errors import StorageUnavailable
from ..leases import Leases, forget
from .bells import Bells, SqliteBell
from .files import is_own_file, prepare
from .filesystems import is_network
from .jobs import Job
from .reader import Readers
from .schema import in_order
from .writer import Writer

T = TypeVar("T")


class SqliteDatabase:
    """One open database. Its methods may be used on any loop of the process that opened it."""

    def __init__(
        self, path: Path, steps: Sequence[Migration], *, clock: Clock, alone: bool, run_twice: bool = False
    ) -> None:
        self.path = path
        self._alone = alone
        self._pid = os.getpid()
        self._closing = False
        self._accepting = threading.Lock()
        self._bells = Bells()
        self._readers = Readers(path)
        self._writer = Writer(path, steps, self._bells, self._readers, alone=alone, run_twice=run_twice)
        self._leases = Leases(self, path.with_name(f"{path.name}.members"), clock=clock, alone=alone)
        self._writer.closed.add_done_callback(lambda _: self._leases.leave())

    async def start(self) -> None:
        """Open the file and bring its schema up to date."""
        self._writer.start()
        try:
            await asyncio.wrap_future(self._writer.opened)
        except BaseException:
            self._stop()
            raise

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in one transaction and return its result after the commit; a cancelled caller's is written too."""
        return await self._submit(fn, writes=True)

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` on one consistent snapshot."""
        return await self._submit(fn, writes=False)

    async def lease(self, name: str) -> Lease:
        """Take a lease, or raise `LeaseHeld`; taking what this database holds already returns an equal lease."""
        return await self._leases.take(name)

    def notify(self, topic: str) -> None:
        """Ring every bell of `topic`; from any thread. Other processes' bells ring for the commit."""
        self._bells.ring(topic)

    def listen(self, topic: str) -> Bell:
        """Return a bell that is already listening, for the running loop. Raises `StorageUnavailable` when closed."""
        self._refuse_closed()
        bell = SqliteBell(self._bells, topic)
        self._writer.wake()
        return bell

    async def close(self) -> None:
        """Finish what was accepted, give leases back, close. Harmless when it is closed."""
        member = self._leases.member
        if member is not None and not self._closing:
            try:
                await self.write(partial(forget, members=(member.id,)))
            except StorageUnavailable:
                pass  # others see that this member's lock is gone
            finally:
                self._stop()
        self._stop()
        await asyncio.wrap_future(self._writer.closed)

    def _stop(self) -> None:
        with self._accepting:
            if not self._closing:
                self._closing = True
                self._writer.stop()
        self._bells.close()

    def _refuse_closed(self) -> None:
        if self._closing:
            raise StorageUnavailable(f"{self.path} is closed.")

    async def _submit(self, fn: Callable[[Tx], T], *, writes: bool) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(fn=fn, future=future, loop=loop, writes=writes)
        if self._pid != os.getpid():
            raise StorageUnavailable(f"{self.path} was opened by the parent process; open it anew.")
        with self._accepting:
            self._refuse_closed()
            if writes or self._alone:
                self._writer.submit(job)
            else:
                self._readers.submit(job)
        return await future


class SqliteStorage:
    """SQLite files through apsw.

    `alone` says whether databases are opened for this process only, without WAL; None decides by the file system.
    `run_twice` runs every write function twice and refuses those that give something else the second time.
    """

    schemes: Sequence[str] = ("sqlite",)

    def __init__(self, *, clock: Clock | None = None, alone: bool | None = None, run_twice: bool = False) -> None:
        self._clock = clock or SystemClock()
        self._alone = alone
        self._run_twice = run_twice

    async def open(self, place: Place, migrations: Sequence[Migration]) -> SqliteDatabase:
        """Open (or create) `<directory>/<name>.db` and bring its schema up to date.

        Raises `NewerData` for a file of a newer version, which is left as it is, and `StorageUnavailable`.
        """
        steps = in_order(migrations)
        path = prepare(place)
        alone = self._decide(path.parent) if self._alone is None else self._alone
        database = SqliteDatabase(path, steps, clock=self._clock, alone=alone, run_twice=self._run_twice)
        await database.start()
        return database

    @staticmethod
    def _decide(folder: Path) -> bool:
        """Whether one process must be alone: on a network file system, and on Windows, which has no flock."""
        return sys.platform == "win32" or is_network(folder)

    def owns(self, path: str | int) -> bool:
        """Tell whether a path or descriptor is one of the engine's own open files."""
        return is_own_file(path)
