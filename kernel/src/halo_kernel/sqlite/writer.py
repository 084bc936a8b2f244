"""The writer thread of a database: it opens, migrates, writes batches, looks for others' commits, and closes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from queue import Empty, SimpleQueue

import apsw

from ..contracts import Migration
from ..errors import StorageUnavailable
from .batches import Batches
from .bells import Bells
from .connection import BUSY_SECONDS, Connection, wal_size
from .failures import unavailable
from .files import OPEN
from .jobs import Job, Outcome, deliver
from .reader import Readers
from .schema import migrate, refuse_newer

BATCH = 256
POLL_SECONDS = 0.25
ALONE_SECONDS = 1.0  # how long opening waits for a process that is about to close


class Signal(Enum):
    """What is not a job."""

    WAKE = auto()
    STOP = auto()


class Writer:
    """The one thread that writes, with the one connection that can."""

    def __init__(
        self, path: Path, steps: Sequence[Migration], bells: Bells, readers: Readers, *, alone: bool, run_twice: bool
    ) -> None:
        self._path = path
        self._steps = steps
        self._bells = bells
        self._readers = readers
        self._alone = alone
        self._run_twice = run_twice
        self._queue: SimpleQueue[Job | Signal] = SimpleQueue()
        self._seen = 0
        self._polled = 0.0
        self.opened: Future[None] = Future()
        self.closed: Future[None] = Future()
        for future in (self.opened, self.closed):
            future.set_running_or_notify_cancel()  # so that a caller's cancellation does not reach it
        self._thread = threading.Thread(target=self._run, name=f"halo-write-{path.stem}", daemon=True)

    def start(self) -> None:
        """Start opening; `opened` tells how it went."""
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Accept a job."""
        self._queue.put(job)

    def wake(self) -> None:
        """Begin to look for others' commits."""
        self._queue.put(Signal.WAKE)

    def stop(self) -> None:
        """Finish what was accepted, then close; `closed` tells when."""
        self._queue.put(Signal.STOP)

    def _run(self) -> None:
        OPEN.append(str(self._path))  # before the first descriptor, which must not be closed under us either
        try:
            self._serve()
        finally:
            OPEN.remove(str(self._path))
            self.closed.set_result(None)

    def _serve(self) -> None:
        try:
            connection = self._open()
        except BaseException as error:
            self.opened.set_exception(self._refusal(error))
            return
        self.opened.set_result(None)
        batches = Batches(connection, run_twice=self._run_twice)
        while self._turn(connection, batches):
            pass
        self._close(connection)

    def _open(self) -> Connection:
        leave_wal = wal_size(self._path) > 0
        busy_seconds = ALONE_SECONDS if self._alone else BUSY_SECONDS
        connection = Connection(self._path, create=True, busy_seconds=busy_seconds)
        try:
            connection.keep_wal(leave_wal)  # a file that is refused is not changed, by a checkpoint neither
            if self._alone:
                connection.command("PRAGMA locking_mode=EXCLUSIVE")
            refuse_newer(connection, self._steps)
            connection.refuse_readonly()
            connection.keep_wal(False)
            _insist(connection.take_alone if self._alone else connection.share, busy_seconds)
            migrate(connection, self._steps)
            self._seen = self._version(connection)
        except BaseException:
            connection.close()
            raise
        connection.set_busy_timeout(BUSY_SECONDS)
        return connection

    def _close(self, connection: Connection) -> None:
        self._readers.close()
        with suppress(apsw.Error):
            connection.command("PRAGMA wal_checkpoint(PASSIVE)")
        with suppress(apsw.Error):
            connection.close()

    def _refusal(self, error: BaseException) -> BaseException:
        if self._alone and isinstance(error, apsw.BusyError):
            return StorageUnavailable(
                f"The database {self._path} is open in another process; only one can have it on this file system.",
                advice="Stop the other process, or move the folder to a local disk.",
            )
        return unavailable(self._path, error) if isinstance(error, apsw.Error) else error

    def _turn(self, connection: Connection, batches: Batches) -> bool:
        """Do what waits, and return whether there will be more. Nothing of it is kept in memory afterwards."""
        items = self._take()
        jobs = [item for item in items if isinstance(item, Job)]
        try:
            self._work(connection, batches, jobs)
        except BaseException as error:  # the thread lives on, and nobody waits for ever
            with suppress(apsw.Error):
                connection.rollback()
            deliver(Outcome(job, error=unavailable(self._path, error)) for job in jobs)
        return Signal.STOP not in items

    def _take(self) -> list[Job | Signal]:
        """Wait for work, then take all that waits, up to a batch."""
        items: list[Job | Signal] = []
        try:
            items.append(self._queue.get(timeout=POLL_SECONDS if self._listens() else None))
            while len(items) < BATCH and Signal.STOP not in items[-1:]:
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items

    def _work(self, connection: Connection, batches: Batches, jobs: Sequence[Job]) -> None:
        writes = [job for job in jobs if job.writes]
        if writes:
            deliver(batches.run(writes))
        for job in jobs:
            if not job.writes:
                deliver([self._read(connection, job)])
        if self._listens() and time.monotonic() - self._polled >= POLL_SECONDS:
            self._poll(connection)

    def _read(self, connection: Connection, job: Job) -> Outcome:
        connection.command("PRAGMA query_only=ON")
        try:
            return Outcome(job, result=connection.read(job.fn))
        except apsw.Error as error:
            return Outcome(job, error=unavailable(self._path, error))
        except BaseException as error:
            return Outcome(job, error=error)
        finally:
            connection.command("PRAGMA query_only=OFF")

    def _listens(self) -> bool:
        return bool(self._bells) and not self._alone

    def _poll(self, connection: Connection) -> None:
        """Ring every bell when another connection has committed since the last look."""
        self._polled = time.monotonic()
        with suppress(apsw.Error):
            seen = self._version(connection)
            if seen != self._seen:
                self._seen = seen
                self._bells.ring()

    def _version(self, connection: Connection) -> int:
        return int(connection.command("PRAGMA data_version")[0][0])


def _insist(set_mode: Callable[[], None], seconds: float) -> None:
    """Switch the journal mode; SQLite does not wait by itself for others that are opening or closing right now."""
    end = time.monotonic() + seconds
    while True:
        try:
            return set_mode()
        except apsw.BusyError:
            if time.monotonic() > end:
                raise
        time.sleep(0.01)
