"""Lock files, which keep other processes out: whoever has one loses it with the process, however that ends.

Windows has no such locks: there everybody gets what they ask for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from weakref import WeakSet

_STEP = 0.02
_held = WeakSet[IO[str]]()


@contextmanager
def locked(path: Path, *, shared: bool = False, patience: float = float("inf")) -> Generator[None]:
    """Have a lock file, which is made if need be and stays, alone or with all who share it.

    Raises `BlockingIOError` when somebody else has it for longer than `patience`, in seconds.
    """
    deadline = time.monotonic() + patience
    with open(path, "a") as file:
        while not _lock(file, shared=shared):
            if time.monotonic() >= deadline:
                raise BlockingIOError(f"{path} is locked")
            time.sleep(_STEP)
        _held.add(file)
        yield


def is_locked(path: Path) -> bool:
    """Tell whether somebody has a lock file alone; many may look at once. Raises `OSError` where none can be read."""
    with open(path) as file:
        return not _lock(file, shared=True)


def _lock(file: IO[str], *, shared: bool) -> bool:
    try:
        with suppress(ImportError):  # Windows
            import fcntl

            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _drop_all() -> None:
    """Let go of all in a forked child, which would keep them beyond its parent's death."""
    for file in list(_held):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_all)
