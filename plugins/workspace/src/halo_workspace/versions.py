"""Versions of files and folders: whether something is still as it was when it was looked at."""

from __future__ import annotations

import os
import stat
import time

Version = tuple[int, ...]
_SECOND = 1_000_000_000
# Clocks of file systems go in ticks, mostly of up to 10 ms; those of old ones in one or two whole seconds.
_TICK, _LONG_TICK = _SECOND // 20, 2 * _SECOND + _SECOND // 10


def version(path: str) -> Version:
    """Return what changes whenever a file does, a folder's list of names, or what a link leads to."""
    try:
        found = os.lstat(path)
        link = _facts(found) if stat.S_ISLNK(found.st_mode) else ()
        return (*link, *_facts(os.stat(path) if link else found))
    except OSError as error:
        # A file that is not there differs from one that cannot be looked at.
        return (-(error.errno or 1),)


def _facts(found: os.stat_result) -> Version:
    return found.st_ctime_ns, found.st_mtime_ns, found.st_dev, found.st_ino, found.st_size


def is_settled(known: Version) -> bool:
    """Tell whether a change from now on shows: one in the same tick as the last, of the same size, would not."""
    tick = _TICK if known[0] % _SECOND else _LONG_TICK
    return len(known) == 1 or time.time_ns() - max(known[:2]) > tick


class Seen:
    """The paths that a piece of work looks at, each as it was before it was read."""

    def __init__(self) -> None:
        self.settled = True
        self._versions: dict[str, Version] = {}

    def look(self, path: str) -> None:
        """Remember a path, whether there is something or not."""
        if path not in self._versions:
            self._versions[path] = known = version(path)
            self.settled = self.settled and is_settled(known)

    def is_same(self) -> bool:
        """Tell whether every path is as it was."""
        return all(version(path) == known for path, known in self._versions.items())
