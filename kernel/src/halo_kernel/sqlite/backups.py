"""Copies of a database: one file, complete, under its name only once all of it is on disk.

Before an update the engine keeps one beside the database, `<file>.backup-<n>`; the last three stay.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import apsw

from ..log import logger
from ..secrets import PRIVATE_FILE, replacing
from .connection import Connection
from .files import OPEN, unavailable

_PAGES = 256  # a step: what a write waits for
_SAID_SECONDS = 10.0


def copying(connection: Connection, target: Path) -> Generator[tuple[int, int]]:
    """Copy a database in steps; after each, yield how many pages of how many are copied.

    The copy is of one moment, as a connection of its own sees it. Alone there can be none: it is the writer's, and
    what that writes between two steps is in the copy (https://sqlite.org/backup.html).
    """
    try:
        with ExitStack() as stack:
            source = connection
            if not connection.alone:
                source = stack.enter_context(closing(Connection(connection.path, reads=True)))
                source.command("BEGIN")
                source.command("SELECT 1 FROM sqlite_schema")  # the moment
            draft = stack.enter_context(replacing(target, mode=PRIVATE_FILE))
            copy = stack.enter_context(closing(Connection(draft)))
            copy.command("PRAGMA synchronous=OFF")  # `replacing` syncs it once
            with copy.raw.backup("main", source.raw, "main") as backup:
                while not backup.step(_PAGES):
                    yield backup.page_count - backup.remaining, backup.page_count
            copy.command("PRAGMA journal_mode=MEMORY")  # not WAL, so that the one file is all
    except (apsw.Error, OSError) as error:
        raise unavailable(connection.path if isinstance(error, apsw.CorruptError) else target, error) from error


def copy(source: Path, target: Path) -> None:
    """Copy a database that is not open here; it is not changed, and nobody else opens it meanwhile."""
    OPEN.append(str(source))
    try:
        with closing(Connection(source, reads=True)) as connection:
            for _ in copying(connection, target):
                pass
    finally:
        OPEN.remove(str(source))


def keep(connection: Connection) -> Path:
    """Copy a database to the next number beside it, remove all but the last three, and return the copy's path.

    The caller sees to it that nobody else does so at the same time.
    """
    path = connection.path
    _remove(path.parent.glob(f".{path.name}.backup-*"))  # what was left by somebody who was killed over it
    names = [each.name.rpartition("-")[2] for each in path.parent.glob(f"{path.name}.backup-*")]
    numbers = sorted(int(name) for name in names if name.isdecimal())
    target, *old = (path.with_name(f"{path.name}.backup-{n}") for n in (max(numbers, default=0) + 1, *numbers))
    said = time.monotonic()
    for copied, pages in copying(connection, target):
        if time.monotonic() - said >= _SAID_SECONDS:
            said = time.monotonic()
            logger("storage").warning("copying before an update", path=str(path), percent=100 * copied // pages)
    _remove(old[:-2])
    return target


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()
