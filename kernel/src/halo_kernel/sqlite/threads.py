"""The threads of a database: one opens, migrates, writes and closes, two read. A connection never leaves its thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from ..contracts import Migration, Tx
from ..errors import StorageUnavailable
from ..leases import Leases
from .batches import Batches, Rehearsal
from .bells import Bells
from .connection import Connection
from .files import OPEN
from .jobs import Job, attempt, deliver
from .schema import migrate

BATCH = 256
READERS = 2
POLL_SECONDS = 0.25
BUSY_SECONDS = 10.0  # how long a statement waits for another process
ALONE_SECONDS = 1.0  # how long opening waits for one that is about to close


class Threads:
    """Works off two queues until `stopping`; None in a queue wakes. `alone`: one thread, one connection, one queue."""

    def __init__(self, path: Path, bells: Bells, leases: Leases, *, alone: bool) -> None:
        self._path = path
        self._bells = bells
        self._leases = leases
        self._alone = alone
        self._seen = 0
        self._polled = 0.0
        self.writes: SimpleQueue[Job | None] = SimpleQueue()
        self.reads: SimpleQueue[Job | None] = self.writes if alone else SimpleQueue()
        self.stopping = False
        self.closed: Future[None] = Future()
        self.closed.set_running_or_notify_cancel()  # so that a caller's cancellation does not reach it

    def start(self, steps: Sequence[Migration], rehearsal: Rehearsal | None) -> None:
        """Open the file; the first job that is submitted is answered once it is open, or with what is wrong."""
        Thread(target=self._run, args=(steps, rehearsal), name=f"halo-write-{self._path.stem}", daemon=True).start()

    def _run(self, steps: Sequence[Migration], rehearsal: Rehearsal | None) -> None:
        OPEN.append(str(self._path))  # before the first descriptor, which must not be closed under us either
        try:
            opened = attempt(partial(self._open, steps))
            if opened.error is None:
                self._serve(opened.result, Batches(opened.result, rehearsal=rehearsal))
            elif (first := self.writes.get()) is not None:
                deliver([first], [opened])
        finally:
            OPEN.remove(str(self._path))
            self._leases.leave()
            self.closed.set_result(None)

    def _open(self, steps: Sequence[Migration]) -> Connection:
        had_wal = os.path.exists(f"{self._path}-wal")
        connection = Connection(self._path, busy_seconds=ALONE_SECONDS if self._alone else BUSY_SECONDS)
        try:
            if self._alone:
                connection.command("PRAGMA locking_mode=EXCLUSIVE")
            migrate(connection, steps)
            connection.journal("truncate" if self._alone else "wal")
            self._seen = connection.version()
        except BaseException:
            connection.close(keep_wal=had_wal)  # a file that is refused is not changed, by a checkpoint neither
            raise
        return connection

    def _serve(self, connection: Connection, batches: Batches) -> None:
        readers = [] if self._alone else [Thread(target=self._read, daemon=True) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        while not (self.stopping and self.writes.empty()):
            self._turn(connection, batches)
        for _ in readers:
            self.reads.put(None)
        for reader in readers:
            reader.join()
        batches.run([self._leases.resign])
        connection.close()

    def _turn(self, connection: Connection, batches: Batches) -> None:
        """Do what waits. Nothing of it is kept in memory afterwards."""
        jobs = self._take()
        if writes := [job for job in jobs if job.writes]:
            batch = attempt(partial(batches.run, [job.fn for job in writes]))
            deliver(writes, batch.result or [batch] * len(writes))
        if reads := [job for job in jobs if not job.writes]:
            connection.command("PRAGMA query_only=ON")
            deliver(reads, [attempt(partial(connection.read, job.fn)) for job in reads])
            connection.command("PRAGMA query_only=OFF")
        if self._bells and time.monotonic() - self._polled >= POLL_SECONDS:
            self._poll(connection)

    def _take(self) -> list[Job]:
        """Wait for work or to be woken, then take all that waits, up to a batch."""
        items: list[Job | None] = []
        with suppress(Empty):
            items.append(self.writes.get(timeout=POLL_SECONDS if self._bells else None))
            while len(items) < BATCH:
                items.append(self.writes.get_nowait())
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

        while (job := self.reads.get()) is not None:
            deliver([job], [attempt(partial(read, job.fn))])
            del job
        for connection in connections:
            connection.close()
