"""Group commit: many functions in one transaction, each in a savepoint of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import apsw

from ..errors import StorageUnavailable
from .connection import Connection
from .failures import unavailable
from .files import identity
from .jobs import Job, Outcome


class Ended(Exception):
    """SQLite has ended the transaction; nothing of it counts."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Batches:
    """Runs writes on one connection."""

    def __init__(self, connection: Connection, *, run_twice: bool) -> None:
        self._connection = connection
        self._run_twice = run_twice
        self._identity = identity(connection.path)

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Write all in one transaction; when SQLite ends it half way, each again in one of its own."""
        try:
            return self._transaction(jobs)
        except Ended as ended:
            self._connection.rollback()
            if len(jobs) == 1:
                return [Outcome(jobs[0], error=ended.reason)]
        return [outcome for job in jobs for outcome in self.run([job])]

    def _transaction(self, jobs: Sequence[Job]) -> list[Outcome]:
        path = self._connection.path
        if identity(path) != self._identity:
            return self._fail(jobs, FileNotFoundError(f"{path} was moved or removed while it was open"))
        try:
            self._connection.command("BEGIN IMMEDIATE")
        except apsw.Error as error:
            return self._fail(jobs, error)
        outcomes = [self._attempt(job) for job in jobs]
        try:
            self._connection.command("COMMIT")
        except apsw.ConstraintError as error:  # a deferred foreign key of one of them
            raise Ended(error) from error
        except apsw.Error as error:
            self._void()
            return self._fail(jobs, error)
        return outcomes

    def _void(self) -> None:
        """Write over what a failed COMMIT may have left in the -wal, where a recovery would take it for committed."""
        with suppress(apsw.Error):
            self._connection.rollback()
            self._connection.command("BEGIN IMMEDIATE")
            version = self._connection.command("PRAGMA user_version")[0][0]
            self._connection.command(f"PRAGMA user_version={(version + 1) % 2**31}")
            self._connection.command("COMMIT")

    def _fail(self, jobs: Sequence[Job], error: BaseException) -> list[Outcome]:
        return [Outcome(job, error=unavailable(self._connection.path, error)) for job in jobs]

    def _attempt(self, job: Job) -> Outcome:
        """Run one function in its savepoint. Raises `Ended`, whatever the function made of it."""
        connection = self._connection
        outcome = Outcome(job)
        try:
            connection.command("SAVEPOINT job")
            outcome = self._call(job)
            if connection.in_transaction:
                if outcome.error is not None:
                    connection.command("ROLLBACK TO job")
                connection.command("RELEASE job")
        except apsw.Error as error:
            raise Ended(unavailable(connection.path, error)) from error
        if not connection.in_transaction:
            raise Ended(outcome.error or StorageUnavailable(f"SQLite ended the transaction on {connection.path}."))
        return outcome

    def _call(self, job: Job) -> Outcome:
        if not self._run_twice:
            return self._once(job, None)
        first_log: list[object] = []
        second_log: list[object] = []
        first = self._once(job, first_log)
        if not self._connection.in_transaction:
            return first
        self._connection.command("ROLLBACK TO job")
        second = self._once(job, second_log)
        if first_log != second_log or not _alike(first, second):
            return Outcome(job, error=_impure(job, first, second))
        return second

    def _once(self, job: Job, log: list[object] | None) -> Outcome:
        try:
            return Outcome(job, result=self._connection.call(job.fn, log=log))
        except BaseException as error:
            return Outcome(job, error=error)


def _alike(first: Outcome, second: Outcome) -> bool:
    if first.error is not None or second.error is not None:
        return type(first.error) is type(second.error) and str(first.error) == str(second.error)
    if _by_identity(first.result):
        return _by_identity(second.result)
    return bool(first.result == second.result)


def _by_identity(value: object) -> bool:
    """Whether a value compares by identity, which says nothing about two runs."""
    return getattr(value.__class__, "__eq__", None) is object.__eq__


def _impure(job: Job, first: Outcome, second: Outcome) -> AssertionError:
    name = getattr(job.fn, "__qualname__", repr(job.fn))
    return AssertionError(
        f"{name} is not pure: run twice on the same data it gave {first.error or first.result!r},"
        f" then {second.error or second.result!r}, or other statements."
        " A function given to write takes clock, ids and state from its arguments and changes nothing but its Tx."
    )
