"""The engine: opens databases, and what an open one gives."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TypeVar, cast

from ..clock import SystemClock
from ..contracts import Bell, Clock, Lease, Migration, Place, Tx
from ..errors import BadInput, StorageUnavailable
from ..leases import Leases
from .backups import copy, copying
from .connection import Connection, Job, Kind, tell
from .files import OPEN, is_network, is_own_file, prepare
from .schema import in_order, migrate

T = TypeVar("T")
BATCH = 256
POLL_SECONDS = 0.25


class SqliteBell:
    """Wakes a waiter on the loop where it was made. Rings between two waits are merged into one.

    `bells` are those that listen; any thread adds, removes and rings, since each of these is one call.
    """

    def __init__(self, bells: set[SqliteBell], topic: str) -> None:
        self.topic = topic
        self._bells = bells
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        bells.add(self)

    async def wait(self) -> None:
        """Return once the topic was notified after the last `wait`, or listening has ended meanwhile.

        Raises `StorageUnavailable` when it had ended before.
        """
        if self not in self._bells:
            raise StorageUnavailable(f"Nobody listens to {self.topic!r} any more.")
        await self._rung.wait()
        self._rung.clear()

    def close(self) -> None:
        """Stop listening; who waits is woken."""
        self._bells.discard(self)
        self.ring()

    def ring(self) -> None:
        """Wake the waiter; from any thread. A loop that is closed has none."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)


class SqliteDatabase:
    """One open database. Its methods may be used on any loop of the process that opened it.

    One thread opens, migrates, writes and closes, two read, each with a connection that never leaves it; they work off
    two queues, in which None wakes. `alone` there is one thread, one connection, one queue.
    """

    _connection: Connection

    def __init__(self, path: Path, steps: Sequence[Migration], *, alone: bool, clock: Clock) -> None:
        self.path = path
        self._steps = steps
        self._alone = alone
        self._pid = os.getpid()
        self._bells = set[SqliteBell]()
        self._seen = 0
        self._polled = 0.0
        self._leases = Leases(self, path.with_name(f"{path.name}.members"), clock=clock, alone=alone)
        self._writes = SimpleQueue[Job | None]()
        self._reads = self._writes if alone else SimpleQueue[Job | None]()
        self._accepting = Lock()
        self._closing = False
        self._closed = Future[None]()
        self._closed.set_running_or_notify_cancel()  # so that a caller's cancellation does not reach it
        OPEN.append(str(path))  # before the first descriptor, which must not be closed under us either
        Thread(target=self._run, name=f"halo-write-{path.stem}", daemon=True).start()

    async def opened(self) -> SqliteDatabase:
        """Return it once the file is open and its schema up to date."""
        try:
            return await self.write(lambda _: self)
        except BaseException:
            self._put(None, last=True)
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
        for bell in tuple(self._bells):
            if bell.topic == topic:
                bell.ring()

    def listen(self, topic: str) -> Bell:
        """Return a bell that is already listening, for the running loop. Raises `StorageUnavailable` when closed."""
        bell = SqliteBell(self._bells, topic)
        self._put(None)
        return bell

    async def backup(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """Write a copy to `path` (0600), in place of what is there, once it is complete.

        Writes go on meanwhile. Raises `BadInput` for a path that cannot be one, `StorageUnavailable`.
        """
        if is_own_file(path) or path.is_dir() or not path.parent.is_dir():
            raise BadInput(f"{path} is an open database's, or no file in a folder that exists.", field="path")
        loop = asyncio.get_running_loop()

        def steps() -> Generator[None]:
            for pages in copying(self._connection, path):
                if progress is not None:
                    loop.call_soon_threadsafe(progress, *pages)
                yield

        await self._submit(steps(), "step")

    async def scrub(self) -> None:
        """Return once nothing that was deleted or overwritten is in the file or its -wal; the file is written anew.

        `secure_delete` would not do: a page that was split keeps what went to another one.
        """

        def steps() -> Generator[None]:
            self._connection.command("VACUUM")
            while not (self._connection.empty_wal() or self._closing):
                yield

        await self._submit(steps(), "step")

    async def close(self) -> None:
        """Finish what was accepted, give leases back, close. Harmless when it is closed."""
        with suppress(StorageUnavailable):  # it is closed, or nothing can be written: then its end frees them
            await self._submit(self._leases.resign, "write", last=True)
        await asyncio.wrap_future(self._closed)

    async def _submit(self, fn: Callable[[Tx], T] | Generator[None, None, T], kind: Kind, *, last: bool = False) -> T:
        if self._pid != os.getpid():
            raise StorageUnavailable(f"{self.path} was opened by the parent process; open it anew.")
        job = Job(fn=fn, kind=kind, told=asyncio.get_running_loop().create_future())
        self._put(job, last=last)
        await job.told
        if job.error is not None:
            raise job.error
        return cast(T, job.result)

    def _put(self, job: Job | None, *, last: bool = False) -> None:
        with self._accepting:
            if self._closing:
                raise StorageUnavailable(f"{self.path} is closed.")
            (self._reads if job is not None and job.kind == "read" else self._writes).put(job)
            self._closing = last
            if last:
                self._writes.put(None)  # the writer may have done the job before the line above

    def _run(self) -> None:
        try:
            self._open()
        except Exception as error:
            for job in (jobs := self._take()):
                job.error = error
            tell(jobs)
        else:
            self._work()
        self._leases.leave()
        for bell in tuple(self._bells):
            bell.close()
        OPEN.remove(str(self.path))
        self._closed.set_result(None)

    def _open(self) -> None:
        had_wal = os.path.exists(f"{self.path}-wal")
        self._connection = Connection(self.path, alone=self._alone)
        try:
            migrate(self._connection, self._steps)
            self._connection.journal()
            self._poll()
        except BaseException:
            self._connection.close(keep_wal=had_wal)  # a file that is refused is not changed, by a checkpoint neither
            raise

    def _work(self) -> None:
        """Do what waits until nothing more is to come, and close."""
        readers = [] if self._alone else [Thread(target=self._read, daemon=True) for _ in range(2)]
        for reader in readers:
            reader.start()
        while not (self._closing and self._writes.empty()):
            self._turn()
        for _ in readers:
            self._reads.put(None)
        for reader in readers:
            reader.join()
        self._connection.close()

    def _turn(self) -> None:
        """Do what waits. Nothing of it is kept in memory afterwards."""
        jobs = self._take()
        if writes := [job for job in jobs if job.kind == "write"]:
            self._connection.write(writes)
            tell(writes)
        for job in jobs:
            if job.kind == "read":
                job.run(self._connection.read)
                tell([job])
            elif job.kind == "step":
                self._step(job)
        if self._bells and time.monotonic() - self._polled >= POLL_SECONDS:
            self._poll()

    def _take(self) -> list[Job]:
        """Wait for work or to be woken, then take all that waits, up to a batch."""
        items: list[Job | None] = []
        with suppress(Empty):
            items.append(self._writes.get(timeout=POLL_SECONDS if self._bells else None))
            while len(items) < BATCH:
                items.append(self._writes.get_nowait())
        return [item for item in items if item is not None]

    def _step(self, job: Job) -> None:
        """Go on with a job that lets others in between; one that nobody waits for any more ends."""
        if job.told.cancelled():
            job.run(lambda steps: steps.close())
        job.run(lambda steps: next(steps, True))
        if job.result or job.error:
            tell([job])
        else:
            self._writes.put(job)

    def _poll(self) -> None:
        """Ring every bell when another connection has committed since the last look."""
        self._polled = time.monotonic()
        with suppress(StorageUnavailable):
            seen, self._seen = self._seen, self._connection.command("PRAGMA data_version")[0][0]
            for bell in tuple(self._bells) if seen != self._seen else ():
                bell.ring()

    def _read(self) -> None:
        connection: Connection | None = None
        while (job := self._reads.get()) is not None:
            try:
                connection = connection or Connection(self.path, reads=True)
            except StorageUnavailable as error:
                job.error = error
            else:
                job.run(connection.read)
            tell([job])
            del job
        if connection is not None:
            connection.close()


class SqliteStorage:
    """SQLite files through apsw.

    `alone` says whether databases are opened for this process only, without WAL; None decides by the file system, and
    on Windows, which has no flock, always.
    """

    name: str = "sqlite"

    def __init__(self, *, clock: Clock | None = None, alone: bool | None = None) -> None:
        self._clock = clock or SystemClock()
        self._alone = alone

    async def open(self, place: Place, migrations: Sequence[Migration]) -> SqliteDatabase:
        """Open (or create) `<directory>/<name>.db` and bring its schema up to date.

        Raises `NewerData` for a file of a newer version, which is left as it is, and `StorageUnavailable`.
        """
        steps = in_order(migrations)
        path = prepare(place)
        alone = self._alone
        if alone is None:
            alone = sys.platform == "win32" or is_network(path.parent)
        return await SqliteDatabase(path, steps, alone=alone, clock=self._clock).opened()

    async def copy(self, place: Place, path: Path) -> None:
        """Copy `<directory>/<name>.db`, which is not open here, to `path` (0600). Raises `StorageUnavailable`."""
        await asyncio.to_thread(copy, Path(os.path.realpath(place.directory)) / f"{place.name}.db", path)

    owns = staticmethod(is_own_file)
