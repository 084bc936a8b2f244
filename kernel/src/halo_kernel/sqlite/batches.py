"""Group commit: many functions in one transaction, each in a savepoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import apsw

from ..contracts import Tx
from ..errors import StorageUnavailable
from .connection import Connection
from .files import check_identity
from .jobs import Outcome, attempt

Function = Callable[[Tx], Any]
Rehearsal = Callable[[Function], Function]


class Batches:
    """Runs writes on one connection."""

    def __init__(
        self, connection: Connection, identity: tuple[int, int] | None, *, rehearsal: Rehearsal | None
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._rehearsal = rehearsal

    def run(self, functions: Sequence[Function]) -> list[Outcome]:
        """Write all in one transaction; when SQLite ends it half way, each again in one of its own."""
        connection = self._connection
        outcomes: list[Outcome] = []
        try:
            check_identity(connection.path, self._identity)
            connection.command("BEGIN IMMEDIATE")
            for fn in functions:
                outcomes.append(self._savepoint(fn))
                if not connection.in_transaction:
                    ended = StorageUnavailable(f"SQLite ended the transaction on {connection.path}.")
                    return self._singly(functions, outcomes[-1].error or ended)
            connection.command("COMMIT")
        except apsw.ConstraintError as error:  # a deferred foreign key of one of them
            return self._singly(functions, error)
        except StorageUnavailable as error:
            if outcomes:
                self._void()
            return [Outcome(error=error)] * len(functions)
        return outcomes

    def _singly(self, functions: Sequence[Function], error: BaseException) -> list[Outcome]:
        self._connection.rollback()
        if len(functions) == 1:
            return [Outcome(error=error)]
        return [outcome for fn in functions for outcome in self.run([fn])]

    def _void(self) -> None:
        """Write over what a failed COMMIT may have left in the -wal, where a recovery would take it for committed."""
        self._connection.rollback()
        with suppress(StorageUnavailable):
            self._connection.command("PRAGMA user_version=1")

    def _savepoint(self, fn: Function) -> Outcome:
        connection = self._connection
        connection.command("SAVEPOINT job")
        outcome = self._call(fn)
        if connection.in_transaction:
            if outcome.error is not None:
                connection.command("ROLLBACK TO job")
            connection.command("RELEASE job")
        return outcome

    def _call(self, fn: Function) -> Outcome:
        if self._rehearsal is None:
            return attempt(partial(self._connection.call, fn))
        fn = self._rehearsal(fn)
        first = attempt(partial(self._connection.call, fn))
        if not self._connection.in_transaction:
            return first
        self._connection.command("ROLLBACK TO job")
        return attempt(partial(self._connection.call, fn))
