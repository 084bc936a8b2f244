"""The open folders from a root down to where a path has led: the one walk that nothing escapes.

Each folder is opened relative to its parent's descriptor and never through a link; links are read and their targets
walked in the same way, so a component that is swapped for a link in between changes nothing (openat(2), O_NOFOLLOW).
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from .errors import Changed, Missing, Outside, Refused, Unusable, WrongKind

Refuse = Callable[[str | int, os.stat_result | None], str]
"""Say why a path may not be opened, or ''.

Asked with the absolute path, links resolved, and what `lstat` says (None: not there yet) before anything is opened, and
with the descriptor after, in case the name was given to another file in between. The answer follows the path in a
message, as in "<path> is hidden".
"""

MAX_LINKS = 40
# O_PATH (Linux) opens folders that may be passed through but not listed.
FOLDER = (
    getattr(os, "O_PATH", 0)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


@dataclass(frozen=True)
class Spot:
    """Where a path led: the entry `name` of an open folder, '.' for the folder itself.

    `path` is relative to the root, links resolved. `status` is None when nothing is there.
    """

    folder: int
    name: str
    path: str
    status: os.stat_result | None

    @property
    def is_folder(self) -> bool:
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)


def components(path: str) -> list[str]:
    """Split a path at its slashes; empty parts and '.' say nothing and are left out."""
    return [part for part in path.split("/") if part not in ("", ".")]


def below(root: str, path: str) -> str | None:
    """Return the absolute `path` relative to the absolute `root` by its letters alone, None when it lies elsewhere."""
    if root == "/" and path.startswith("/"):
        return path.lstrip("/")
    if path == root:
        return ""
    return path[len(root) + 1 :] if path.startswith(root + "/") else None


@dataclass
class Trail:
    """One walk; `close` gives the descriptors back."""

    root: str
    refuse: Refuse
    asked: str
    folders: list[int]
    make: bool = False
    names: list[str] = field(default_factory=list[str])
    _ahead: deque[str] = field(default_factory=deque[str])
    _links: int = 0

    def follow(self) -> Spot:
        """Walk to the end of the path that was asked for. Raises the errors of this package."""
        if "\0" in self.asked:
            raise Unusable("a path holds no NUL character.", path=self.asked)
        self._ahead.extend(components(self.asked))
        try:
            while self._ahead:
                spot = self._step(self._ahead.popleft())
                if spot is not None:
                    return spot
            return Spot(self.folders[-1], ".", self.path(), os.fstat(self.folders[-1]))
        except OSError as error:
            raise Unusable(f"{self.asked}: {error.strerror}.", path=self.asked) from error

    def close(self) -> None:
        """Close every folder."""
        while self.folders:
            os.close(self.folders.pop())

    def path(self, name: str = "") -> str:
        """Return the current folder relative to the root, or the entry `name` in it."""
        return "/".join([*self.names, name] if name else self.names) or "."

    def _step(self, part: str) -> Spot | None:
        if part == "..":
            self._up()
            return None
        try:
            status = os.stat(part, dir_fd=self.folders[-1], follow_symlinks=False)
        except FileNotFoundError:
            return self._nothing(part)
        if stat.S_ISLNK(status.st_mode):
            self._turn(part)
            return None
        self._ask(os.path.join(self.root, self.path(part)), status, part)
        if stat.S_ISDIR(status.st_mode):
            self._down(part)
            return None
        if self._ahead:
            raise WrongKind(f"{self.asked}: {self.path(part)} is not a folder.", path=self.asked)
        return Spot(self.folders[-1], part, self.path(part), status)

    def _ask(self, where: str | int, status: os.stat_result | None, part: str) -> None:
        reason = self.refuse(where, status)
        if reason:
            raise Refused(f"{self.asked}: {self.path(part)} {reason}.", path=self.asked)

    def _up(self) -> None:
        if not self.names:
            raise Outside(f"{self.asked} leads out of {self.root}.", path=self.asked)
        os.close(self.folders.pop())
        self.names.pop()

    def _down(self, part: str) -> None:
        try:
            opened = os.open(part, os.O_RDONLY | FOLDER, dir_fd=self.folders[-1])
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
                raise Changed(f"{self.asked} was changed while it was being opened.", path=self.asked) from error
            raise
        self.folders.append(opened)
        self._ask(opened, os.fstat(opened), part)
        self.names.append(part)

    def _nothing(self, part: str) -> Spot | None:
        self._ask(os.path.join(self.root, self.path(part)), None, part)
        if not self._ahead:
            return Spot(self.folders[-1], part, self.path(part), None)
        if not self.make or ".." in self._ahead:
            raise Missing(f"{self.asked} does not exist: there is no {self.path(part)}.", path=self.asked)
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=self.folders[-1])
        self._down(part)
        return None

    def _turn(self, link: str) -> None:
        """Put a link's target in front of what is left of the path."""
        target = os.readlink(link, dir_fd=self.folders[-1])
        self._links += 1
        if self._links > MAX_LINKS:
            raise Unusable(f"{self.asked} leads through too many links.", path=self.asked)
        if target.startswith("/"):
            inside = below(self.root, target)
            if inside is None:
                raise Outside(
                    f"{self.asked} leads out of {self.root}: {self.path(link)} is a link to {target}.", path=self.asked
                )
            target = inside
            while self.names:
                self._up()
        self._ahead.extendleft(reversed(components(target)))
