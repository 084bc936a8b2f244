"""Looking into a copy of a database that nobody else has, and what a restored one is changed in.

The copies are ours alone, so another SQLite than the kernel's may open them. Databases that are in use are copied by
the kernel only.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_REFERENCE = re.compile(r"blob:([0-9a-f]{64})")
_MAGIC = b"SQLite format 3\0"
_STEPS = 100_000  # instructions of SQLite between two signs of life
_NOBODY = 2**31 - 1  # the number of no process
_KEPT_BACK = "it was owed when the backup was made, and the workspace that owed it is still there"


class Look(NamedTuple):
    """A database's schema, the oldest one whose readers may open it, the workspace that it is, and blobs it names."""

    version: int
    min_reader: int
    workspace: str
    blobs: frozenset[str]


def is_database(path: Path) -> bool:
    """Tell whether a file, which nobody here has open, is a database."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def look(path: Path) -> Look:
    """Look into a copy. Raises `sqlite3.Error` for one that cannot be read."""
    with _reading(path) as db:
        tables = _tables(db)
        version, reader = 0, 0
        if "schema" in tables:
            version, reader = db.execute(
                "SELECT coalesce(max(version), 0), coalesce(max(min_reader), 0) FROM schema"
            ).fetchone()
        workspace, blobs = "", set[str]()
        if {"meta", "events", "sessions"} <= tables:
            row = db.execute("SELECT value FROM meta WHERE name = 'workspace'").fetchone()
            workspace = str(row[0]) if row else ""
            for (body,) in db.execute("SELECT body FROM events WHERE body LIKE '%blob:%'"):
                blobs.update(_REFERENCE.findall(body))
    return Look(version, reader, workspace, frozenset(blobs))


def fault(path: Path, alive: Callable[[], None]) -> str:
    """Return what is wrong with a copy, '' for nothing; `alive` is called now and then."""
    try:
        with _reading(path) as db:
            db.set_progress_handler(alive, _STEPS)
            said = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if said == "ok" else said.partition("\n")[0]


def is_used(path: Path) -> bool:
    """Tell whether another process has a database open; one that is damaged is used by nobody who could write."""
    with suppress(sqlite3.DatabaseError):
        try:
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
                db.execute("PRAGMA locking_mode = EXCLUSIVE")
                db.execute("BEGIN EXCLUSIVE")
                db.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            return "locked" in str(error)
    return False


def renew_workspace(path: Path, *, fresh: str = "") -> None:
    """Make a workspace's copy one that goes on from where it was.

    Every journal has a new id, so that cursors of what came later are refused. What was about to be sent may have been
    sent since: it is marked as begun, and its dispatcher's guarantee decides. With a `fresh` id it is a copy of a
    workspace that lives: that one owes all of it, the copy nothing.
    """
    with _writing(path) as db:
        tables = _tables(db)
        db.execute("UPDATE sessions SET journal = lower(hex(randomblob(16)))")
        db.execute("UPDATE runs SET landed = 1")  # it was copied in the middle, which is no crash
        db.execute("UPDATE leases SET member = NULL")
        if "parts" in tables:
            db.execute("UPDATE parts SET state = 'sending' WHERE state = 'pending' AND text <> ''")
        if fresh:
            db.execute("UPDATE meta SET value = ? WHERE name = 'workspace'", (fresh,))
            if "parts" in tables:
                open_now = "UPDATE parts SET state = 'failed', error = ? WHERE state IN ('pending', 'sending')"
                db.execute(open_now, (_KEPT_BACK,))
                db.execute("UPDATE inbox SET owed = 0")
                db.execute("UPDATE sessions SET reply_to = ''")


def renew_registry(path: Path, places: dict[str, tuple[str, Path]]) -> None:
    """Tell a registry of workspaces where these are now, each by its former id, and that something may wait in them."""
    with _writing(path) as db:
        db.execute("UPDATE leases SET member = NULL")
        for former, (name, folder) in places.items():
            row = db.execute("SELECT used_at FROM workspaces WHERE id = ?", (former,)).fetchone()
            db.execute("DELETE FROM workspaces WHERE id = ? OR path = ?", (former, str(folder)))
            db.execute("INSERT INTO workspaces(id, path, used_at) VALUES (?, ?, ?)", (name, str(folder), *(row or [0])))
        db.execute("DELETE FROM busy")
        for name, _ in places.values():
            mark_busy(db, name)


def mark_busy(db: sqlite3.Connection, workspace: str) -> None:
    """Say that the next server must look into a workspace."""
    sql = "INSERT INTO busy(workspace, boot, pid) VALUES (?, 'restore', ?) ON CONFLICT DO NOTHING"
    db.execute(sql, (workspace, _NOBODY))


def register(path: Path, workspace: str, folder: Path) -> bool:
    """Name one restored workspace in a home's registry, which a server may have open; false where that cannot be."""
    try:
        with _writing(path) as db:
            db.execute("DELETE FROM workspaces WHERE path = ? AND id <> ?", (str(folder), workspace))
            sql = "INSERT INTO workspaces(id, path, used_at) VALUES (?, ?, 0) ON CONFLICT(id) DO UPDATE SET path = ?"
            db.execute(sql, (workspace, str(folder), str(folder)))
            mark_busy(db, workspace)
    except sqlite3.Error:
        return False
    return True


def known_path(registry: Path, workspace: str) -> str:
    """Return the folder that a home's registry has for a workspace, '' when it has none or cannot be read."""
    with suppress(sqlite3.Error), _reading(registry, alone=False) as db:
        row = db.execute("SELECT path FROM workspaces WHERE id = ?", (workspace,)).fetchone()
        return str(row[0]) if row else ""
    return ""


def workspace_id(path: Path) -> str:
    """Return which workspace a database is that others may have open, '' when that cannot be read."""
    with suppress(sqlite3.Error), _reading(path, alone=False) as db:
        row = db.execute("SELECT value FROM meta WHERE name = 'workspace'").fetchone()
        return str(row[0]) if row else ""
    return ""


def move_accounts(path: Path, folders: dict[str, Path]) -> None:
    """Let accounts of channels speak for their workspaces where these are now."""
    with _writing(path) as db:
        for former, folder in folders.items():
            db.execute(
                "UPDATE accounts SET account = json_set(account, '$.workspace', ?)"
                " WHERE json_extract(account, '$.workspace') = ?",
                (str(folder), former),
            )


def new_id() -> str:
    """Return a workspace's new id."""
    return secrets.token_hex(8)


def _tables(db: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


@contextmanager
def _reading(path: Path, *, alone: bool = True) -> Generator[sqlite3.Connection]:
    more = "&immutable=1" if alone else ""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{more}", uri=True, timeout=5)) as db:
        yield db


@contextmanager
def _writing(path: Path) -> Generator[sqlite3.Connection]:
    """Open an existing database for one transaction."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)) as db, db:
        yield db
