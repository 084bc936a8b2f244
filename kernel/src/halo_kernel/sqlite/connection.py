"""One connection and the transaction handed to functions. It is used by the thread that opened it and by no other."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ..contracts import Row, Tx, Value
from ..errors import BadInput, StorageUnavailable

T = TypeVar("T")
_REFUSED = {apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH}
_PRAGMAS = {"integrity_check", "quick_check", "foreign_key_check", "table_info", "index_list", "index_info"}
_WAL_LIMIT = 16 * 1024 * 1024  # bytes that a checkpointed -wal keeps on disk
_SCRUB_MS = 100
_OWNER = "Check the owner and the permissions of the file and its folder."
_OTHERS = "See which process has it open; on a network file system only one can have it."
_FAILURES: dict[type[apsw.Error], tuple[str, str]] = {
    apsw.BusyError: ("is in use by another process and did not become free", _OTHERS),
    apsw.ProtocolError: ("cannot be locked", _OTHERS),
    apsw.FullError: ("cannot grow: the disk is full", "Free some space; nothing was written."),
    apsw.IOError: ("cannot be read or written: the disk reported an error", "Check the disk."),
    apsw.ReadOnlyError: ("is not writable", _OWNER),
    apsw.CantOpenError: ("cannot be opened", _OWNER),
    apsw.CorruptError: ("is damaged", "Restore it from a backup."),
    apsw.NotADBError: ("is not a database", "Move the file away, or restore it from a backup."),
}
_UNAVAILABLE = tuple(_FAILURES)


def unavailable(path: Path, error: apsw.Error) -> StorageUnavailable:
    """Return the error that callers see, with its cause; the file's name is in the sentence."""
    sentence, advice = _FAILURES.get(type(error), ("cannot be used", ""))
    found = StorageUnavailable(f"The database {path} {sentence} ({error}).", advice=advice)
    found.__cause__ = error
    return found


class SqliteTx:
    """One transaction, for the time its function runs. Rows are read whole, so they may outlive it."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

    def execute(self, sql: str, args: Sequence[Value] = ()) -> Iterator[Row]:
        """Run one statement and return its rows, all of them read already."""
        if self._connection is None:
            raise RuntimeError("The transaction is over: a function uses its Tx only while it runs.")
        return iter(self._connection.statement(sql, args))

    def one(self, sql: str, args: Sequence[Value] = ()) -> Row | None:
        """Run one statement and return its first row, or None."""
        return next(self.execute(sql, args), None)

    def end(self) -> None:
        """Refuse any further statement."""
        self._connection = None


def _check(args: Sequence[Value]) -> None:
    for position, value in enumerate(args):
        if isinstance(value, str) and "\0" in value:
            raise BadInput(f"Argument {position + 1} contains U+0000, which is no text to keep.", field="args")
        if value != value:
            raise BadInput(f"Argument {position + 1} is not a number (NaN).", field="args")


class Connection:
    """An open connection with its guard: while a function runs, it cannot begin, commit, attach or set pragmas.

    Every method raises `StorageUnavailable` for what SQLite reports of the file, the disk and other processes.
    """

    def __init__(self, path: Path, *, reads: bool = False, busy_seconds: float) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._guarded = False
        flags = apsw.SQLITE_OPEN_READONLY if reads else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        try:
            self._raw = apsw.Connection(str(path), flags=flags)
        except apsw.Error as error:
            raise unavailable(path, error) from error
        if self._raw.readonly("main") and not reads:  # which SQLite falls back to without a word
            raise unavailable(path, apsw.ReadOnlyError("no permission to write"))
        # apsw's stub names collections.abc.Buffer, which Python 3.11 lacks
        self._execute: Callable[..., Any] = self._raw.execute  # pyright: ignore[reportUnknownMemberType]
        self._raw.set_busy_timeout(round(busy_seconds * 1000))
        self._raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        self._raw.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        self._raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self._raw.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        self._raw.authorizer = self._authorize

    def journal(self, mode: str) -> None:
        """Set the journal mode, and that a commit survives a crash of the machine."""
        end = time.monotonic() + self._busy_seconds
        found = ""
        while not found:  # SQLite does not wait by itself for others that are opening or closing right now
            try:
                found = self.command(f"PRAGMA journal_mode={mode}")[0][0]
            except StorageUnavailable as error:
                if not isinstance(error.__cause__, apsw.BusyError) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        if found != mode:
            raise StorageUnavailable(f"The database {self.path} stays in journal mode {found!r}; it needs {mode!r}.")
        self.command("PRAGMA synchronous=FULL")
        self.command(f"PRAGMA journal_size_limit={_WAL_LIMIT}")

    def empty_wal(self) -> bool:
        """Move all of the -wal into the file and leave nothing in it; false, soon, while somebody reads from it."""
        self._raw.set_busy_timeout(_SCRUB_MS)
        try:
            return not self.command("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        finally:
            self._raw.set_busy_timeout(round(self._busy_seconds * 1000))

    @property
    def in_transaction(self) -> bool:
        """Whether SQLite has a transaction open."""
        return self._raw.in_transaction

    def version(self) -> int:
        """Return a number that changes when another connection commits."""
        return int(self.command("PRAGMA data_version")[0][0])

    def command(self, sql: str) -> list[Row]:
        """Run a statement of the engine's own; a broken constraint alone is raised as it is.

        It is not cached: the cache would lead a function past the guard.
        """
        try:
            rows: list[Row] = self._execute(sql, can_cache=False).fetchall()
        except apsw.ConstraintError:
            raise
        except apsw.Error as error:
            raise unavailable(self.path, error) from error
        return rows

    def statement(self, sql: str, args: Sequence[Value]) -> list[Row]:
        """Run a statement of a function; what is the function's own fault is raised as it is."""
        _check(args)
        if not self._raw.in_transaction:
            raise StorageUnavailable(f"The transaction on {self.path} was ended by SQLite.")
        try:
            rows: list[Row] = self._execute(sql, tuple(args)).fetchall()
        except _UNAVAILABLE as error:
            raise unavailable(self.path, error) from error
        except apsw.AuthError as error:
            raise BadInput("A function never begins, commits, attaches or sets pragmas.", field="sql") from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise BadInput(f"An argument cannot be kept: {error}.", field="args") from error
        return rows

    def call(self, fn: Callable[[Tx], T]) -> T:
        """Run a function in the transaction that is open."""
        tx = SqliteTx(self)
        self._guarded = True
        try:
            result = fn(tx)
        finally:
            self._guarded = False
            tx.end()
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("A function given to a database is a plain one, not a coroutine function.")
        return result

    def read(self, fn: Callable[[Tx], T]) -> T:
        """Run a function on one snapshot."""
        self.command("BEGIN")
        try:
            return self.call(fn)
        except StorageUnavailable as error:
            if isinstance(error.__cause__, apsw.ReadOnlyError):
                raise BadInput("A function given to read does not write.", field="sql") from error
            raise
        finally:
            self.rollback()

    def copy_to(self, target: Connection) -> apsw.Backup:
        """Begin a copy of the whole database."""
        return target._raw.backup("main", self._raw, "main")

    def rollback(self) -> None:
        """End the transaction, if SQLite has not; where that fails, the next one cannot begin and says so."""
        if self._raw.in_transaction:
            with suppress(StorageUnavailable):
                self.command("ROLLBACK")

    def close(self, *, keep_wal: bool = False) -> None:
        """Close for good; `keep_wal` leaves the -wal as it is when this is the last connection."""
        self._raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_wal))
        self._raw.close(True)

    def _authorize(self, operation: int, first: str | None, *_: object) -> int:
        refused = operation in _REFUSED or (operation == apsw.SQLITE_PRAGMA and first not in _PRAGMAS)
        return apsw.SQLITE_DENY if self._guarded and refused else apsw.SQLITE_OK
