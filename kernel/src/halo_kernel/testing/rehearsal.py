"""Functions given to `write` are pure in memory: each is called twice on the same data and has to do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..contracts import Row, Tx, Value


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
    """A write function whose second call raises `AssertionError` unless it did and gave what the first did."""

    def __init__(self, fn: Callable[[Tx], Any]) -> None:
        self._fn = fn
        self._first: _Call | None = None

    def __call__(self, tx: Tx) -> Any:
        """Call the function and note what it did."""
        call = self._call(_Noting(tx))
        if self._first is None:
            self._first = call
        elif not call.like(self._first):
            raise AssertionError(self._complaint(self._first, call))
        if call.error is not None:
            raise call.error
        return call.result

    def _call(self, tx: _Noting) -> _Call:
        try:
            return _Call(tx.said, result=self._fn(tx))
        except BaseException as error:
            return _Call(tx.said, error=error)

    def _complaint(self, first: _Call, second: _Call) -> str:
        name = getattr(self._fn, "__qualname__", repr(self._fn))
        return (
            f"{name} is not pure: run twice on the same data it gave {first.error or first.result!r},"
            f" then {second.error or second.result!r}, or other statements."
            " A function given to write takes clock, ids and state from its arguments and changes nothing but its Tx."
        )
