"""The engine: opens databases, and what an open one gives."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..clock import SystemClock
from ..contracts import Bell, Clock, Lease, Migration, Place, Tx
from ..errors import BadInput, StorageUnavailable
from ..leases import Leases
from .backups import Copy
from .batches import Rehearsal
from .bells import Bells, SqliteBell
from .files import is_own_file, prepare
from .filesystems import is_network
from .jobs import Job
from .schema import in_order
from .threads import Options, Threads

T = TypeVar("T")


class SqliteDatabase:
    """One open database. Its methods may be used on any loop of the process that opened it."""

    def __init__(self, path: Path, options: Options, *, clock: Clock) -> None:
        self.path = path
        self._pid = os.getpid()
        self._alone = options.alone
        self._bells = Bells()
        self._leases = Leases(self, path.with_name(f"{path.name}.members"), clock=clock, alone=options.alone)
        self._threads = Threads(path, self._bells, self._leases, options)

    async def start(self) -> None:
        """Open the file and bring its schema up to date."""
        try:
            await self.write(lambda _: None)
        except BaseException:
            self._stop()
            raise

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in one transaction and return its result after the commit; a cancelled caller's is written too."""
        return await self._submit(fn, "write")

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` on one consistent snapshot."""
        return await self._submit(fn, "read")

    async def lease(self, name: str) -> Lease:
        """Take a lease, or raise `LeaseHeld`; taking what this database holds already returns an equal lease."""
        return await self._leases.take(name)

    def notify(self, topic: str) -> None:
        """Ring every bell of `topic`; from any thread. Other processes' bells ring for the commit."""
        self._bells.ring(topic)

    def listen(self, topic: str) -> Bell:
        """Return a bell that is already listening, for the running loop. Raises `StorageUnavailable` when closed."""
        with self._threads.accepting:
            self._refuse_closed()
            bell = SqliteBell(self._bells, topic)
            self._threads.put(None)
        return bell

    async def backup(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """Write a copy to `path` (0600), in place of what is there, once it is complete.

        Writes go on meanwhile. Raises `BadInput` for a path that cannot be one, `StorageUnavailable`.
        """
        if is_own_file(path) or path.is_dir() or not path.parent.is_dir():
            raise BadInput(f"{path} is an open database's, or no file in a folder that exists.", field="path")
        copy = Copy(path, progress, alone=self._alone)
        try:
            await self._submit(copy, "step")
        finally:
            copy.abandoned = True  # a cancelled caller's ends with its next step

    async def scrub(self) -> None:
        """Return once nothing that was deleted or overwritten is in the file or its -wal; the file is written anew.

        `secure_delete` would not do: a page that was split keeps what went to another one.
        """
        await self._submit(lambda connection: [connection.command("VACUUM")], "step")
        await self._submit(lambda connection: connection.empty_wal() or self._threads.stopping, "step")

    async def close(self) -> None:
        """Finish what was accepted, give leases back, close. Harmless when it is closed."""
        self._stop()
        await asyncio.wrap_future(self._threads.closed)

    def _stop(self) -> None:
        self._threads.stop()
        self._bells.close()

    def _refuse_closed(self) -> None:
        if self._threads.stopping:
            raise StorageUnavailable(f"{self.path} is closed.")

    async def _submit(self, fn: Callable[[Any], T], kind: Literal["write", "read", "step"]) -> T:
        if self._pid != os.getpid():
            raise StorageUnavailable(f"{self.path} was opened by the parent process; open it anew.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._threads.accepting:
            self._refuse_closed()
            self._threads.put(Job(fn=fn, future=future, kind=kind))
        return await future


class SqliteStorage:
    """SQLite files through apsw.

    `alone` says whether databases are opened for this process only, without WAL; None decides by the file system, and
    on Windows, which has no flock, always. With `rehearsal` every write function is called twice on the same data, as
    what `rehearsal` made of it; only the second call counts.
    """

    schemes: Sequence[str] = ("sqlite",)

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        alone: bool | None = None,
        rehearsal: Rehearsal | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._alone = alone
        self._options = partial(Options, rehearsal=rehearsal)

    async def open(self, place: Place, migrations: Sequence[Migration]) -> SqliteDatabase:
        """Open (or create) `<directory>/<name>.db` and bring its schema up to date.

        Raises `NewerData` for a file of a newer version, which is left as it is, and `StorageUnavailable`.
        """
        steps = in_order(migrations)
        path = prepare(place)
        alone = self._alone
        if alone is None:
            alone = sys.platform == "win32" or is_network(path.parent)
        database = SqliteDatabase(path, self._options(steps=steps, alone=alone), clock=self._clock)
        await database.start()
        return database

    def owns(self, path: str | int) -> bool:
        """Tell whether a path or descriptor is one of the engine's own open files."""
        return is_own_file(path)
