"""Functions given to `write` are pure in memory: each is called twice on the same data and has to do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..contracts import Row, Tx, Value
from ..errors import StorageUnavailable
from ..sqlite.connection import SqliteTx


class _Noting:
    """A transaction that notes its statements."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.said: list[object] = []

    def execute(self, sql: str, args: Sequence[Value] = ()) -> Iterator[Row]:
        self.said.append((sql, tuple(args)))
        return self._tx.execute(sql, args)

    def one(self, sql: str, args: Sequence[Value] = ()) -> Row | None:
        self.said.append((sql, tuple(args)))
        return self._tx.one(sql, args)


@dataclass(frozen=True, eq=False)
class _Call:
    said: list[object]
    result: Any = None
    error: BaseException | None = None

    def like(self, other: _Call) -> bool:
        if self.said != other.said or type(self.error) is not type(other.error) or str(self.error) != str(other.error):
            return False
        by_identity = getattr(self.result.__class__, "__eq__", None) is object.__eq__  # says nothing about two calls
        return by_identity or bool(self.result == other.result)


class Rehearsed:
    """A write function that is called twice on the same data; `AssertionError` unless both did and gave the same."""

    def __init__(self, fn: Callable[[Tx], Any]) -> None:
        self._fn = fn

    def __call__(self, tx: Tx) -> Any:
        """Call the function, take back what it wrote, and call it again."""
        assert isinstance(tx, SqliteTx), "the kit rehearses on SQLite"
        first = self._call(_Noting(tx))
        try:
            _undo(tx)
        except StorageUnavailable:  # SQLite ended the transaction: there is nothing to call it on
            second = first
        else:
            second = self._call(_Noting(tx))
        if not second.like(first):
            raise AssertionError(self._complaint(first, second))
        if second.error is not None:
            raise second.error
        return second.result

    def _call(self, tx: _Noting) -> _Call:
        try:
            return _Call(tx.said, result=self._fn(tx))
        except BaseException as error:
            return _Call(tx.said, error=error)

    def _complaint(self, first: _Call, second: _Call) -> str:
        name = name_of(self._fn)
        return (
            f"{name} is not pure: run twice on the same data it gave {first.error or first.result!r},"
            f" then {second.error or second.result!r}, or other statements."
            " A function given to write takes clock, ids and state from its arguments and changes nothing but its Tx."
        )


class Undone(Exception):
    """Raised at the end of a write, so that nothing of it stays."""


def undone(fn: Callable[[Tx], Any]) -> Callable[[Tx], None]:
    """Return a write function that does what `fn` does, and has the engine take it back."""

    def write(tx: Tx) -> None:
        fn(tx)
        raise Undone

    return write


def _undo(tx: SqliteTx) -> None:
    """Take back what a function has written so far."""
    tx.connection.running = None
    tx.connection.command("ROLLBACK TO job")
    tx.connection.running = tx


def name_of(fn: Callable[..., object]) -> str:
    """Return what a function given to `write` is called in a report; a partial is called as what it completes."""
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__qualname__", repr(fn))
