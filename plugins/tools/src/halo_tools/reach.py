"""What the file tools may open at each access level.

| level | read | write |
|---|---|---|
| full | everywhere | everywhere |
| workspace | everywhere but what is hidden | the workspace and `tools.writable_dirs` |
| readonly | the workspace and HALO_HOME/global, but what is hidden | nowhere |

At every level a link never leads out of the workspace, and Halo's databases and secrets are refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from halo_kernel import Access, Forbidden
from halo_lib_files import Root, below

from .hidden import hidden_paths, is_database, workspace_masks
from .settings import ToolSettings

OURS = "is one of Halo's own databases, which no tool opens"
_PSEUDO = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The predicate given to a `Root`. `own` is the kernel's `is_own_file`, `hidden` holds (device, inode)."""

    own: Callable[[str | int], bool]
    hidden: frozenset[tuple[int, int]]
    home: str
    access: Access

    def __call__(self, where: str | int, status: os.stat_result | None) -> str:
        if isinstance(where, str) and is_database(where, self.home):
            return OURS
        if self._may_be_own(where, status) and self.own(where):
            return OURS
        if where in _PSEUDO:
            return "holds no files of people"
        if status is not None and (status.st_dev, status.st_ino) in self.hidden:
            return f"is hidden from file tools at {self.access} access"
        return ""

    def _may_be_own(self, where: str | int, status: os.stat_result | None) -> bool:
        """Spare the kernel most questions of a long walk: a file with one name is ours only by that name."""
        if status is None or isinstance(where, int):
            return status is None or not stat.S_ISDIR(status.st_mode)
        return stat.S_ISREG(status.st_mode) and (status.st_nlink > 1 or ".db" in where.casefold())


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What one call may open. `workspace` and `home` (HALO_HOME) are absolute, links resolved."""

    workspace: str
    home: str
    access: Access
    settings: ToolSettings
    own: Callable[[str | int], bool]

    @contextmanager
    def open(self, path: str, *, write: bool = False) -> Generator[tuple[Root, str], None, None]:
        """Give the root that holds `path`, and the path in it. Raises `Forbidden` where the level does not reach."""
        folder, inside = self.place(path, write=write)
        with Root(folder, refuse=self.gate) as root:
            yield root, inside

    def place(self, path: str, *, write: bool = False) -> tuple[str, str]:
        """Return the root's folder and the path in it; relative ones start at the workspace."""
        if write and self.access == "readonly":
            raise Forbidden("readonly access writes no files.")
        asked = os.path.expanduser(path)
        if not os.path.isabs(asked) and ".." not in asked.split("/"):
            return self.workspace, asked
        full = os.path.normpath(os.path.join(self.workspace, asked))
        for folder in self._folders(write):
            inside = below(folder, full)
            inside = below(folder, os.path.realpath(full)) if inside is None else inside
            if inside is not None:
                return folder, inside
        verb = "write" if write else "read"
        raise Forbidden(f"{path} is outside {self.workspace}; {self.access} access does not {verb} there.")

    def show(self, folder: str, path: str) -> str:
        """Return a root's path as a model may give it back: relative to the workspace, else absolute."""
        if folder == self.workspace:
            return path
        return os.path.join(folder, path) if path != "." else folder

    @cached_property
    def gate(self) -> Gate:
        """The predicate for every root of this call."""
        paths = [os.path.join(self.home, "secrets")]
        if self.access != "full":
            paths += [*hidden_paths(self.home, self.settings), *workspace_masks(self.workspace)]
        found = (_identity(path) for path in paths)
        hidden = frozenset(each for each in found if each is not None)
        return Gate(own=self.own, hidden=hidden, home=self.home, access=self.access)

    def _folders(self, write: bool) -> list[str]:
        if self.access == "full" or (self.access == "workspace" and not write):
            return [self.workspace, "/"]
        if self.access == "workspace":
            extra = (os.path.realpath(os.path.expanduser(folder)) for folder in self.settings.writable_dirs)
            return [self.workspace, *extra]
        return [self.workspace, os.path.join(self.home, "global")]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
