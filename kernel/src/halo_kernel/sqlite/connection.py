"""One connection and the transaction handed to functions. It is used by the thread that opened it and by no other."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ..contracts import Row, Tx, Value
from ..errors import BadInput, StorageUnavailable
from .failures import UNAVAILABLE, unavailable

T = TypeVar("T")
BUSY_SECONDS = 10.0
_REFUSED = {apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH}
_PRAGMAS = {
    "integrity_check",
    "quick_check",
    "foreign_key_check",
    "table_info",
    "table_xinfo",
    "index_list",
    "index_info",
}
_WAL_LIMIT = 16 * 1024 * 1024  # bytes that a checkpointed -wal keeps on disk


class SqliteTx:
    """One transaction, for the time its function runs. Rows are read whole, so they may outlive it."""

    def __init__(self, connection: Connection, *, log: list[object] | None = None) -> None:
        self._connection: Connection | None = connection
        self._log = log

    def execute(self, sql: str, args: Sequence[Value] = ()) -> Iterator[Row]:
        """Run one statement and return its rows, all of them read already."""
        return iter(self._rows(sql, args))

    def one(self, sql: str, args: Sequence[Value] = ()) -> Row | None:
        """Run one statement and return its first row, or None."""
        return next(iter(self._rows(sql, args)), None)

    def _rows(self, sql: str, args: Sequence[Value]) -> list[Row]:
        if self._connection is None:
            raise RuntimeError("The transaction is over: a function uses its Tx only while it runs.")
        _check(sql, args)
        if self._log is not None:
            self._log.append((sql, tuple(args)))
        return self._connection.statement(sql, args)

    def end(self) -> None:
        """Refuse any further statement."""
        self._connection = None


def _check(sql: str, args: Sequence[Value]) -> None:
    if "\0" in sql:
        raise BadInput("A statement must not contain U+0000.", field="sql")
    for position, value in enumerate(args):
        if isinstance(value, str) and "\0" in value:
            raise BadInput(f"Argument {position + 1} contains U+0000, which is no text to keep.", field="args")
        if value != value:
            raise BadInput(f"Argument {position + 1} is not a number (NaN).", field="args")


class Connection:
    """An open connection with its guard: while a function runs, it cannot begin, commit, attach or set pragmas."""

    def __init__(self, path: Path, *, create: bool, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._guarded = False
        self._reading = False
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        self._raw = apsw.Connection(str(path), flags=flags)
        # apsw's stub names collections.abc.Buffer, which Python 3.11 lacks
        self._execute: Callable[..., Any] = self._raw.execute  # pyright: ignore[reportUnknownMemberType]
        self.set_busy_timeout(busy_seconds)
        self._raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        self._raw.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        self._raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self._raw.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        self._raw.authorizer = self._authorize

    def set_busy_timeout(self, seconds: float) -> None:
        """Set how long a statement waits for another process."""
        self._raw.set_busy_timeout(round(seconds * 1000))

    def keep_wal(self, keep: bool) -> None:
        """Leave the -wal as it is when the last connection closes."""
        self._raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep))

    def refuse_readonly(self) -> None:
        """Raise when SQLite could open the file for reading only, which it does without a word."""
        if self._raw.readonly("main"):
            raise unavailable(self.path, apsw.ReadOnlyError("no permission to write"))

    def share(self) -> None:
        """Become one of several connections: WAL, which survives a crash of the process and of the machine."""
        mode = self.command("PRAGMA journal_mode=WAL")[0][0]
        if mode != "wal":
            raise StorageUnavailable(f"The database {self.path} stays in journal mode {mode!r}; WAL is needed.")
        self._settle()

    def take_alone(self) -> None:
        """Become the only connection: the first transaction locks all others out until it is closed."""
        self.command("PRAGMA journal_mode=TRUNCATE")
        self._settle()

    def _settle(self) -> None:
        self.command("PRAGMA synchronous=FULL")
        self.command(f"PRAGMA journal_size_limit={_WAL_LIMIT}")

    @property
    def in_transaction(self) -> bool:
        """Whether SQLite has a transaction open."""
        return self._raw.in_transaction

    def command(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        """Run a statement of the engine's own. It is not cached: the cache would lead a function past the guard."""
        rows: list[Row] = self._execute(sql, tuple(args), can_cache=False).fetchall()
        return rows

    def statement(self, sql: str, args: Sequence[Value]) -> list[Row]:
        """Run a statement of a function."""
        if not self._raw.in_transaction:
            raise StorageUnavailable(f"The transaction on {self.path} was ended by SQLite.")
        try:
            rows: list[Row] = self._execute(sql, tuple(args)).fetchall()
        except UNAVAILABLE as error:
            if self._reading and isinstance(error, apsw.ReadOnlyError):
                raise BadInput("A function given to read does not write.", field="sql") from error
            raise unavailable(self.path, error) from error
        except apsw.AuthError as error:
            raise BadInput("A function never begins, commits, attaches or sets pragmas.", field="sql") from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise BadInput(f"An argument cannot be kept: {error}.", field="args") from error
        return rows

    def call(self, fn: Callable[[Tx], T], *, log: list[object] | None = None) -> T:
        """Run a function in the transaction that is open."""
        tx = SqliteTx(self, log=log)
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
        self.command("BEGIN DEFERRED")
        self._reading = True
        try:
            return self.call(fn)
        finally:
            self._reading = False
            self.rollback()

    def rollback(self) -> None:
        """End the transaction, if SQLite has not."""
        if self._raw.in_transaction:
            self.command("ROLLBACK")

    def close(self) -> None:
        """Close for good."""
        self._raw.close(True)

    def _authorize(self, operation: int, first: str | None, second: str | None, *_: object) -> int:
        if not self._guarded:
            return apsw.SQLITE_OK
        if operation in _REFUSED or (operation == apsw.SQLITE_PRAGMA and first not in _PRAGMAS):
            return apsw.SQLITE_DENY
        return apsw.SQLITE_OK


def wal_size(path: Path) -> int:
    """Return how many bytes wait in the -wal of a database."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0
