"""Text files of the two places that prompts and agents come from: the home and the workspace."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from halo_kernel import BadFile, is_own_file
from halo_lib_files import FilesError, Missing, Root

from .versions import Version, version

LONGEST = 200_000
_DATABASE = re.compile(r"[^/]+\.db(?:[-.][^/]*)?", re.IGNORECASE)
_NOTHING = (FileNotFoundError, NotADirectoryError)
Look = Callable[[str], None]


def _unseen(path: str) -> None:
    """Take no note of what is read."""


class Files(Protocol):
    """A folder of text files that are read as they are now; paths are relative, with slashes.

    Each absolute path that an answer depends on is told to the `look` of whoever opened the folder, before it is read.
    """

    label: str

    def path(self, name: str) -> str:
        """Return the absolute path, for people."""
        ...

    def has(self, name: str) -> bool:
        """Tell whether there is something of that name, if only a link to nothing."""
        ...

    def version(self, name: str) -> Version:
        """Return what changes whenever a file does."""
        ...

    def read(self, name: str) -> str | None:
        """Return a file's text, None when there is no such file.

        A text of more than 200,000 bytes is cut and says so. Raises `BadFile` for what is there and cannot be read.
        """
        ...

    def names(self, folder: str) -> tuple[str, ...] | None:
        """Return what a folder holds, sorted; None when there is no such folder."""
        ...


class HomeFiles:
    """`HALO_HOME/global`: a person's own, so links may lead anywhere."""

    label = "global"

    def __init__(self, home: Path, look: Look = _unseen) -> None:
        self._folder = home / "global"
        self._look = look

    def path(self, name: str) -> str:
        """See `Files.path`."""
        return str(self._folder / name)

    def has(self, name: str) -> bool:
        """See `Files.has`."""
        self._look(self.path(name))
        return os.path.lexists(self.path(name))

    def version(self, name: str) -> Version:
        """See `Files.version`."""
        self._look(self.path(name))
        return version(self.path(name))

    def read(self, name: str) -> str | None:
        """See `Files.read`."""
        path = self._folder / name
        self._look(str(path))
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise BadFile(f"{path} is not a file", path=str(path))
            with path.open("rb") as file:
                return _text(file.read(LONGEST + 1))
        except _NOTHING:
            return None
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror}", path=str(path)) from error

    def names(self, folder: str) -> tuple[str, ...] | None:
        """See `Files.names`."""
        path = self._folder / folder
        self._look(str(path))
        try:
            return tuple(sorted(os.listdir(path)))
        except _NOTHING:
            return None
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror}", path=str(path)) from error


class WorkspaceFiles:
    """A workspace's folder: perhaps somebody else's clone, so no link leads out of it and our databases stay shut."""

    label = ".halo"

    def __init__(self, root: Root, look: Look = _unseen) -> None:
        self._root = root
        self._look = look

    def path(self, name: str) -> str:
        """See `Files.path`."""
        return os.path.join(self._root.path, ".halo", name)

    def has(self, name: str) -> bool:
        """See `Files.has`."""
        self._look(self.path(name))
        return os.path.lexists(self.path(name))

    def version(self, name: str) -> Version:
        """See `Files.version`."""
        self._look(self.path(name))
        return version(self.path(name))

    def read(self, name: str) -> str | None:
        """See `Files.read`; links that lead out of the workspace are a `BadFile` too."""
        return self.read_any(f".halo/{name}")

    def read_any(self, name: str) -> str | None:
        """Read a file anywhere in the workspace, like `read`."""
        path = os.path.join(self._root.path, name)
        self._look(path)
        try:
            return _text(self._root.read(name, LONGEST + 1))
        except Missing:
            return None
        except FilesError as error:
            raise BadFile(f"{path} cannot be read: {error}", path=path) from error

    def names(self, folder: str) -> tuple[str, ...] | None:
        """See `Files.names`."""
        self._look(self.path(folder))
        try:
            return tuple(entry.name for entry in self._root.entries(f".halo/{folder}"))
        except Missing:
            return None
        except FilesError as error:
            raise BadFile(f"{self.path(folder)} cannot be read: {error}", path=self.path(folder)) from error


@contextmanager
def open_workspace(folder: str, look: Look = _unseen) -> Generator[WorkspaceFiles]:
    """Open a workspace's files. Raises `BadFile` when its folder cannot be used."""
    look(folder)
    try:
        root = Root(folder, refuse=refuse_databases)
    except FilesError as error:
        raise BadFile(str(error), path=folder) from error
    with root:
        yield WorkspaceFiles(root, look)


def refuse_databases(where: str | int, status: os.stat_result | None) -> str:
    """Refuse Halo's databases: closing any descriptor of an open one would drop SQLite's locks on it."""
    if isinstance(where, str):
        folder, name = os.path.split(where)
        if os.path.basename(folder) == ".halo" and _DATABASE.fullmatch(name):
            return "is one of Halo's own databases"
    if status is not None and stat.S_ISDIR(status.st_mode):
        return ""
    return "is one of Halo's own databases" if is_own_file(where) else ""


def _text(data: bytes) -> str:
    text = data[:LONGEST].decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return f"{text}\n\n[cut after {LONGEST} bytes]" if len(data) > LONGEST else text
