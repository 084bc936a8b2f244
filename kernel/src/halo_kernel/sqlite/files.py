"""Where a database lies, and which files of this process nobody else may open.

Closing any descriptor of a database's file drops the locks that SQLite holds on it in this process
(https://sqlite.org/howtocorrupt.html, 2.2), so every function that opens paths for others asks `is_own_file`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ..contracts import Place
from ..errors import BadInput, StorageUnavailable

SUFFIXES = ("", "-wal", "-shm", "-journal")
OPEN: list[str] = []  # the databases that this process has open, one entry an opening; each change is one call
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def prepare(place: Place) -> Path:
    """Return the file of a place, its folder created; a new file is 0600, a secret one lies in a folder of 0700."""
    if not _NAME.fullmatch(place.name):
        raise BadInput(f"{place.name!r} is no name of a database: letters, digits, '.', '_', '-'.", field="name")
    secret = place.scope == "secret"
    try:
        place.directory.mkdir(mode=0o700 if secret else 0o777, parents=True, exist_ok=True)
        path = Path(os.path.realpath(place.directory)) / f"{place.name}.db"
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise StorageUnavailable(f"{path} is a link or no file; a database is opened only where it lies.")
        with suppress(FileExistsError):  # an existing file may be open here: no descriptor of it is closed
            path.touch(0o600, exist_ok=False)
        if secret:
            path.parent.chmod(0o700)
            path.chmod(0o600)
    except OSError as error:
        raise StorageUnavailable(
            f"{place.directory}/{place.name}.db cannot be opened or made: {error.strerror}."
        ) from error
    return path


def identity(path: str | Path | int) -> tuple[int, int] | None:
    """Return (device, inode) of what a path or descriptor leads to, None when there is nothing."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def check_identity(path: Path, wanted: tuple[int, int] | None) -> None:
    """Raise `StorageUnavailable` unless the path still leads to the file that it led to."""
    if identity(path) != wanted:
        raise StorageUnavailable(
            f"The database {path} was moved or removed while it was open.",
            advice="Stop Halo and start it again; what was in the database is gone with it.",
        )


def is_own_file(path: str | Path | int) -> bool:
    """Tell whether a path or an open descriptor is a file of a database that this process has open.

    Files are compared by device and inode, so links of both kinds are seen through. `-wal`, `-shm` and `-journal` are
    included, whether they exist at this moment or not.
    """
    names = [name + suffix for name in set(OPEN) for suffix in SUFFIXES]
    wanted = identity(path)
    if wanted is not None:
        return any(identity(name) == wanted for name in names)
    if isinstance(path, int) or "\0" in str(path):
        return False
    folder, name = os.path.split(os.path.realpath(path))
    parent = identity(folder)
    return parent is not None and any(
        name.casefold() == own.casefold() and identity(place) == parent for place, own in map(os.path.split, names)
    )
