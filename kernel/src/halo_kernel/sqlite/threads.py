"""The threads of a database: one opens, migrates, writes and closes, two read. A connection never leaves its thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from ..contracts import Migration, Tx
from ..errors import StorageUnavailable
from ..leases import Leases
from .batches import Batches, Rehearsal
from .bells import Bells
from .connection import Connection
from .files import OPEN, identity
from .jobs import Job, attempt, deliver
from .schema import migrate

BATCH = 256
READERS = 2
POLL_SECONDS = 0.25
BUSY_SECONDS = 10.0  # how long a statement waits for another process
ALONE_SECONDS = 1.0  # how long opening waits for one that is about to close


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a database is opened; see `SqliteStorage`."""

    steps: Sequence[Migration]
    alone: bool
    rehearsal: Rehearsal | None


class Threads:
    """Work off two queues until `stop`; None in a queue wakes. `alone`: one thread, one connection, one queue.

    The first job is answered once the file is open, or with what kept it from being opened.
    """

    def __init__(self, path: Path, bells: Bells, leases: Leases, options: Options) -> None:
        self._path = path
        self._identity = identity(path)
        self._bells = bells
        self._leases = leases
        self._options = options
        self._seen = 0
        self._polled = 0.0
        self._writes: SimpleQueue[Job | None] = SimpleQueue()
        self._reads: SimpleQueue[Job | None] = self._writes if options.alone else SimpleQueue()
        self.accepting = Lock()
        self.stopping = False
        self.closed: Future[None] = Future()
        self.closed.set_running_or_notify_cancel()  # so that a caller's cancellation does not reach it
        OPEN.append(str(path))  # before the first descriptor, which must not be closed under us either
        Thread(target=self._run, name=f"halo-write-{path.stem}", daemon=True).start()

    def put(self, job: Job | None) -> None:
        """Take a job; only with `accepting` held, and none after `stop`."""
        (self._reads if job is not None and job.kind == "read" else self._writes).put(job)

    def stop(self) -> None:
        """Take no more; `closed` is done when what was taken is."""
        with self.accepting:
            self.stopping = True
            self._writes.put(None)

    def _run(self) -> None:
        opening = self._writes.get()
        opened = attempt(self._open)
        if opening is not None:
            deliver([opening], [opened])
        if opened.error is None:
            self._work(opened.result)
        OPEN.remove(str(self._path))
        self.closed.set_result(None)

    def _open(self) -> Connection:
        had_wal = os.path.exists(f"{self._path}-wal")
        connection = Connection(self._path, busy_seconds=ALONE_SECONDS if self._options.alone else BUSY_SECONDS)
        try:
            if self._options.alone:
                connection.command("PRAGMA locking_mode=EXCLUSIVE")
            migrate(connection, self._options.steps, alone=self._options.alone)
            connection.journal("truncate" if self._options.alone else "wal")
            self._seen = connection.version()
        except BaseException:
            connection.close(keep_wal=had_wal)  # a file that is refused is not changed, by a checkpoint neither
            raise
        return connection

    def _work(self, connection: Connection) -> None:
        """Do what waits until nothing more is to come, and close."""
        batches = Batches(connection, self._identity, rehearsal=self._options.rehearsal)
        readers = [] if self._options.alone else [Thread(target=self._read, daemon=True) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        try:
            while not (self.stopping and self._writes.empty()):
                self._turn(connection, batches)
        finally:
            for _ in readers:
                self._reads.put(None)
            for reader in readers:
                reader.join()
            batches.run([self._leases.resign])
            connection.close()
            self._leases.leave()

    def _turn(self, connection: Connection, batches: Batches) -> None:
        """Do what waits. Nothing of it is kept in memory afterwards."""
        jobs = self._take()
        if writes := [job for job in jobs if job.kind == "write"]:
            batch = attempt(partial(batches.run, [job.fn for job in writes]))
            deliver(writes, batch.result or [batch] * len(writes))
        if reads := [job for job in jobs if job.kind == "read"]:
            connection.command("PRAGMA query_only=ON")
            deliver(reads, [attempt(partial(connection.read, job.fn)) for job in reads])
            connection.command("PRAGMA query_only=OFF")
        for job in [job for job in jobs if job.kind == "step"]:
            outcome = attempt(partial(job.fn, connection))
            if outcome.result or outcome.error:
                deliver([job], [outcome])
            else:
                self._writes.put(job)
        if self._bells and time.monotonic() - self._polled >= POLL_SECONDS:
            self._poll(connection)

    def _take(self) -> list[Job]:
        """Wait for work or to be woken, then take all that waits, up to a batch."""
        items: list[Job | None] = []
        with suppress(Empty):
            items.append(self._writes.get(timeout=POLL_SECONDS if self._bells else None))
            while len(items) < BATCH:
                items.append(self._writes.get_nowait())
        return [item for item in items if item is not None]

    def _poll(self, connection: Connection) -> None:
        """Ring every bell when another connection has committed since the last look."""
        self._polled = time.monotonic()
        with suppress(StorageUnavailable):
            seen, self._seen = self._seen, connection.version()
            if seen != self._seen:
                self._bells.ring()

    def _read(self) -> None:
        connections: list[Connection] = []  # one, opened by the first read

        def read(fn: Callable[[Tx], Any]) -> Any:
            if not connections:
                connections.append(Connection(self._path, reads=True, busy_seconds=BUSY_SECONDS))
            return connections[0].read(fn)

        while (job := self._reads.get()) is not None:
            deliver([job], [attempt(partial(read, job.fn))])
            del job
        for connection in connections:
            connection.close()
