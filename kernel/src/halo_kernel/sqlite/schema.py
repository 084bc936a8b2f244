"""The schema of a database: which steps it has seen, and who may still read it."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from ..contracts import Migration, Tx
from ..errors import BadInput, NewerData, StorageUnavailable
from ..leases import TABLES
from .connection import Connection

_TABLES = "CREATE TABLE IF NOT EXISTS schema(version INTEGER PRIMARY KEY, min_reader INTEGER NOT NULL);" + TABLES
_NEWEST = "SELECT coalesce(max(version), 0), coalesce(max(min_reader), 0) FROM schema"


def in_order(migrations: Sequence[Migration]) -> list[Migration]:
    """Return the steps by version; each version is there once and at least 1."""
    steps = sorted(migrations, key=lambda step: step.version)
    versions = [step.version for step in steps]
    if len(set(versions)) != len(versions) or any(version < 1 for version in versions):
        raise BadInput(f"Versions of migrations are 1 or more, each once, not {versions}.", field="migrations")
    return steps


def migrate(connection: Connection, steps: Sequence[Migration]) -> None:
    """Apply in one transaction the steps that the database has not seen, in order of version.

    Raises `NewerData` when the database needs a newer version than the newest known step; it is not changed then.
    Foreign keys are off meanwhile, so that a step may rebuild a table, and all of them are checked before the commit.
    """
    connection.command("PRAGMA foreign_keys=OFF")
    connection.command("BEGIN EXCLUSIVE")
    try:
        connection.command(_TABLES)
        seen, needed = connection.command(_NEWEST)[0]
        known = steps[-1].version if steps else 0
        if needed > known:
            raise NewerData(
                f"{connection.path} was written by a newer version (it needs schema {needed}, this one knows {known}).",
                advice="Use the newer version, or restore a backup from before the update. The file was not changed.",
            )
        missing = [step for step in steps if step.version > seen]
        for step in missing:
            _apply(connection, step)
        if missing and (broken := connection.command("PRAGMA foreign_key_check")):
            raise StorageUnavailable(f"{connection.path} breaks foreign keys after its migration: {broken[0]}.")
        connection.command("COMMIT")
    finally:
        connection.rollback()
    connection.command("PRAGMA foreign_keys=ON")


def _apply(connection: Connection, step: Migration) -> None:
    def run(tx: Tx) -> None:
        tx.execute(step.sql)
        tx.execute("INSERT INTO schema(version, min_reader) VALUES (?, ?)", (step.version, step.min_reader))

    try:
        connection.call(run)
    except (apsw.Error, BadInput) as error:
        raise StorageUnavailable(
            f"Migration {step.version} of {connection.path} failed and changed nothing: {error}."
        ) from error
