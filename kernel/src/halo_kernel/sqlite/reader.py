"""The reader threads of a database: they start when there is something to read."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue

import apsw

from .connection import Connection
from .failures import unavailable
from .jobs import Job, Outcome, deliver

MOST = 2


class Readers:
    """Up to two threads, each with a connection that cannot write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._counting = threading.Lock()

    def submit(self, job: Job) -> None:
        """Accept a read."""
        self._queue.put(job)
        with self._counting:
            self._unfinished += 1
            if self._unfinished > len(self._threads) < MOST:
                name = f"halo-read-{self._path.stem}-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()

    def close(self) -> None:
        """Finish what was accepted and close the connections; blocks."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        connections: list[Connection] = []
        while self._turn(connections):
            pass
        for connection in connections:
            connection.close()

    def _turn(self, connections: list[Connection]) -> bool:
        """Do one read, and return whether there will be more. Nothing of it is kept in memory afterwards."""
        job = self._queue.get()
        if job is None:
            return False
        if not job.future.cancelled():
            deliver([self._read(connections, job)])
        with self._counting:
            self._unfinished -= 1
        return True

    def _read(self, connections: list[Connection], job: Job) -> Outcome:
        try:
            if not connections:
                connections.append(self._open())
            return Outcome(job, result=connections[0].read(job.fn))
        except apsw.Error as error:
            return Outcome(job, error=unavailable(self._path, error))
        except BaseException as error:
            return Outcome(job, error=error)

    def _open(self) -> Connection:
        connection = Connection(self._path, create=False)
        connection.command("PRAGMA query_only=ON")
        return connection
