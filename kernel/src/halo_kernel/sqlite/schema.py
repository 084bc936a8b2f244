"""The schema of a database: which steps it has seen, and who may still read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw

from ..contracts import Migration
from ..errors import BadInput, NewerData, StorageUnavailable
from ..leases import TABLES
from ..log import logger
from .backups import keep
from .connection import Connection

_TABLES = "CREATE TABLE IF NOT EXISTS schema(version INTEGER PRIMARY KEY, min_reader INTEGER NOT NULL);" + TABLES
_ALONE = "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT; BEGIN"
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

    A database that is not new is copied beside itself first; where that fails, it stays as it is.
    Raises `NewerData` when the database needs a newer version than the newest known step; it is not changed then.
    Foreign keys are off meanwhile, so that a step may rebuild a table, and all of them are checked before the commit.
    """
    connection.command("PRAGMA foreign_keys=OFF")
    # Others stay out from the lock on, alone until the end; what writes cannot be copied, so alone it reads first.
    connection.command(_ALONE if connection.alone else "BEGIN IMMEDIATE")
    try:
        tables = connection.command("SELECT name FROM sqlite_schema")
        seen, needed = connection.command(_NEWEST)[0] if ("schema",) in tables else (0, 0)
        known = steps[-1].version if steps else 0
        if needed > known:
            raise NewerData(
                f"{connection.path} was written by a newer version (it needs schema {needed}, this one knows {known}).",
                advice="Use the newer version, or restore a backup from before the update. The file was not changed.",
            )
        missing = [step for step in steps if step.version > seen]
        backup = _backup(connection) if missing and tables else None
        connection.command(_TABLES)
        for step in missing:
            _apply(connection, step)
        if missing and (broken := connection.command("PRAGMA foreign_key_check")):
            raise StorageUnavailable(f"{connection.path} breaks foreign keys after its migration: {broken[0]}.")
        connection.command("COMMIT")
    finally:
        connection.rollback()
    connection.command("PRAGMA foreign_keys=ON")
    if backup is not None:
        said = {"path": str(connection.path), "from": seen, "to": missing[-1].version, "backup": str(backup)}
        logger("storage").warning("database updated", **said)


def _backup(connection: Connection) -> Path:
    try:
        return keep(connection)
    except StorageUnavailable as error:
        said = f"{connection.path} was not updated, since it could not be backed up: {error.message}"
        raise StorageUnavailable(said, advice=error.advice) from error


def _apply(connection: Connection, step: Migration) -> None:
    try:
        connection.call(lambda tx: tx.execute(step.sql))
    except (apsw.Error, BadInput) as error:
        said = f"Migration {step.version} of {connection.path} failed and changed nothing: {error}."
        raise StorageUnavailable(said) from error
    connection.command(f"INSERT INTO schema(version, min_reader) VALUES ({step.version}, {step.min_reader})")
