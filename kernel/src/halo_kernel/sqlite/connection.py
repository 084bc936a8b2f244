"""One connection, functions on their way to it, and the transaction that they get.

A connection is used by the thread that opened it and by no other.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import apsw

from ..contracts import Row, Tx, Value
from ..errors import BadInput, ConstraintFailed, StorageUnavailable
from .files import FAILURES, identity, unavailable

T = TypeVar("T")
Kind = Literal["write", "read", "step"]
BUSY_SECONDS = 10.0  # how long a statement waits for another process
ALONE_SECONDS = 1.0  # how long it waits, alone, for one that is about to close
_REFUSED = {apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH}
_LISTS = {"table_info", "index_list", "index_info"}
_PRAGMAS = {"integrity_check", "quick_check", "foreign_key_check", "data_version", *_LISTS}  # full-text search asks one
_WAL_LIMIT = 16 * 1024 * 1024  # bytes that a checkpointed -wal keeps on disk


@dataclass(eq=False, kw_only=True)
class Job:
    """One function, how its last run ended, and a future of its caller's loop that is done when the caller may know.

    A "step" is a generator, which goes on after what waits until it is exhausted.
    """

    fn: Any
    kind: Kind
    told: asyncio.Future[None]
    result: Any = None
    error: Exception | None = None

    def run(self, call: Callable[[Any], Any]) -> None:
        """Give the function to `call` and keep how that ended. What would end the caller's task or loop is wrapped."""
        self.result = self.error = None
        try:
            self.result = call(self.fn)
        except Exception as error:
            self.error = error
        except BaseException as error:
            self.error = RuntimeError(f"The function given to the database raised {error!r}.")
            self.error.__cause__ = error


def tell(jobs: Sequence[Job]) -> None:
    """Tell the callers: one wake-up a loop. A loop that is closed has no callers left."""
    for loop in {job.told.get_loop() for job in jobs}:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_wake, [job.told for job in jobs if job.told.get_loop() is loop])


def _wake(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


class SqliteTx:
    """One transaction, for the time its function runs. Rows are read whole, so they may outlive it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def execute(self, sql: str, args: Sequence[Value] = ()) -> Iterator[Row]:
        """Run one statement and return its rows. What is the function's own fault is raised as it is."""
        connection = self.connection
        if connection.running is not self:
            raise RuntimeError("The transaction is over: a function uses its Tx only while it runs.")
        _check(args)
        if not connection.raw.in_transaction:
            raise StorageUnavailable(f"The transaction on {connection.path} was ended by SQLite.")
        try:
            return iter(connection.execute(sql, tuple(args)).fetchall())
        except apsw.ConstraintError as error:
            raise ConstraintFailed(str(error)) from error
        except apsw.ReadOnlyError as error:
            raise BadInput("A function given to read does not write.", field="sql") from error
        except apsw.AuthError as error:
            raise BadInput("A function never begins, commits, attaches or sets pragmas.", field="sql") from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise BadInput(f"An argument cannot be kept: {error}.", field="args") from error
        except FAILURES as error:
            raise unavailable(connection.path, error) from error

    def one(self, sql: str, args: Sequence[Value] = ()) -> Row | None:
        """Run one statement and return its first row, or None."""
        return next(self.execute(sql, args), None)


def _check(args: Sequence[Value]) -> None:
    for position, value in enumerate(args):
        if isinstance(value, str) and "\0" in value:
            raise BadInput(f"Argument {position + 1} contains U+0000, which is no text to keep.", field="args")
        if value != value:
            raise BadInput(f"Argument {position + 1} is not a number (NaN).", field="args")


class Connection:
    """An open connection with its guard: while a function runs, it cannot begin, commit, attach or set pragmas.

    `alone`: it is the only one, which reads and writes. `reads`: it cannot write. Every method raises
    `StorageUnavailable` for what SQLite reports of the file, the disk and other processes.
    """

    def __init__(self, path: Path, *, alone: bool = False, reads: bool = False) -> None:
        self.path = path
        self.alone = alone
        self.running: SqliteTx | None = None
        self._busy_seconds = ALONE_SECONDS if alone else BUSY_SECONDS
        try:
            flags = apsw.SQLITE_OPEN_READONLY if reads else apsw.SQLITE_OPEN_READWRITE
            self.raw = apsw.Connection(str(path), flags=flags)
        except apsw.Error as error:
            raise unavailable(path, error) from error
        if self.raw.readonly("main") and not reads:  # which SQLite falls back to without a word
            raise unavailable(path, apsw.ReadOnlyError("no permission to write"))
        self._identity = identity(path)
        # apsw's stub names collections.abc.Buffer, which Python 3.11 lacks
        self.execute: Callable[..., Any] = self.raw.execute  # pyright: ignore[reportUnknownMemberType]
        self.raw.set_busy_timeout(round(self._busy_seconds * 1000))
        self.raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        self.raw.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        self.raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self.raw.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        self.raw.authorizer = self._authorize

    def _authorize(self, operation: int, first: str | None, *_: object) -> int:
        refused = operation in _REFUSED or (operation == apsw.SQLITE_PRAGMA and first not in _PRAGMAS)
        return apsw.SQLITE_DENY if self.running and refused else apsw.SQLITE_OK

    def command(self, sql: str) -> list[Row]:
        """Run statements of the engine's own; a broken constraint alone is raised as it is.

        They are not cached: the cache would lead a function past the guard.
        """
        end = time.monotonic() + self._busy_seconds
        while True:  # SQLite does not wait by itself for others that are opening or closing right now
            try:
                rows: list[Row] = self.execute(sql, can_cache=False).fetchall()
                return rows
            except apsw.ConstraintError:
                raise
            except apsw.Error as error:
                if not isinstance(error, apsw.BusyError) or time.monotonic() > end:
                    raise unavailable(self.path, error) from error
            time.sleep(0.01)

    def journal(self) -> None:
        """Set the journal mode, and that a commit survives a crash of the machine."""
        mode = "truncate" if self.alone else "wal"
        found = self.command(f"PRAGMA journal_mode={mode}")[0][0]
        if found != mode:
            raise StorageUnavailable(f"The database {self.path} stays in journal mode {found!r}; it needs {mode!r}.")
        self.command(f"PRAGMA synchronous=FULL; PRAGMA journal_size_limit={_WAL_LIMIT}")

    def write(self, jobs: Sequence[Job]) -> None:
        """Run all in one transaction, a savepoint each; when SQLite ends it half way, each again in one of its own."""
        began = False
        try:
            if identity(self.path) != self._identity:
                raise StorageUnavailable(f"The database {self.path} was moved or removed while it was open.")
            self.command("BEGIN IMMEDIATE")
            began = True
            for job in jobs:
                self.command("SAVEPOINT job")
                job.run(self.call)
                if not self.raw.in_transaction:
                    job.error = job.error or StorageUnavailable(f"SQLite ended the transaction on {self.path}.")
                    break
                if job.error is not None:
                    self.command("ROLLBACK TO job")
                self.command("RELEASE job")
            else:
                self.command("COMMIT")
                return
        except apsw.ConstraintError as error:  # a deferred foreign key of one of them
            jobs[0].error = ConstraintFailed(str(error))
        except Exception as error:
            self.rollback()
            if began:
                # A failed COMMIT may have left frames in the -wal, which a recovery would take for committed.
                with suppress(StorageUnavailable):
                    self.command("PRAGMA user_version=1")
            for job in jobs:
                job.error = error
            return
        self.rollback()
        if len(jobs) > 1:
            for job in jobs:
                self.write([job])

    def read(self, fn: Callable[[Tx], T]) -> T:
        """Run a function on one snapshot; it cannot write."""
        self.command("PRAGMA query_only=ON; BEGIN" if self.alone else "BEGIN")
        try:
            return self.call(fn)
        finally:
            self.rollback()
            if self.alone:
                self.command("PRAGMA query_only=OFF")

    def call(self, fn: Callable[[Tx], T]) -> T:
        """Run a function in the transaction that is open."""
        tx = self.running = SqliteTx(self)
        try:
            result = fn(tx)
        finally:
            self.running = None
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("A function given to a database is a plain one, not a coroutine function.")
        return result

    def rollback(self) -> None:
        """End the transaction, if SQLite has not; where that fails, the next one cannot begin and says so."""
        if self.raw.in_transaction:
            with suppress(StorageUnavailable):
                self.command("ROLLBACK")

    def empty_wal(self) -> bool:
        """Move all of the -wal into the file and leave nothing in it; false, soon, while somebody reads from it."""
        self.raw.set_busy_timeout(100)
        try:
            return not self.command("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        finally:
            self.raw.set_busy_timeout(round(self._busy_seconds * 1000))

    def close(self, *, keep_wal: bool = False) -> None:
        """Close for good; `keep_wal` leaves the -wal as it is when this is the last connection.

        What cannot be moved into the file stays in the -wal for the next one that opens it.
        """
        self.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_wal))
        with suppress(apsw.Error):
            self.raw.close(True)
