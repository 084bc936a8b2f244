"""`halo logs`: the end of the server's log, and what follows."""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from halo_kernel import default_home

from .terminal import note

_STEP = 0.25


def command(argv: Sequence[str]) -> int:
    """Print the last lines of the log; with `-f` go on until Ctrl-C, across rotations."""
    parser = argparse.ArgumentParser(prog="halo logs", description="Print the end of the server's log.")
    parser.add_argument("-n", "--lines", type=int, default=50, help="number of lines (default: 50)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what follows")
    options = parser.parse_args(list(argv))
    path = default_home(os.environ) / "global" / "logs" / "server.log"
    if not path.exists() and not options.follow:
        note(f"There is no log yet at {path}.")
        return 1
    place = _tail(path, max(0, options.lines))
    while options.follow:
        time.sleep(_STEP)
        place = _more(path, place)
    return 0


def _tail(path: Path, lines: int) -> tuple[int, int]:
    """Print the last lines; return the file's inode and the place after them."""
    if not path.exists():
        return (0, 0)
    with path.open("rb") as file:
        for line in deque(file, maxlen=lines):
            print(line.decode("utf-8", "replace").rstrip("\n"))
        return (os.fstat(file.fileno()).st_ino, file.tell())


def _more(path: Path, place: tuple[int, int]) -> tuple[int, int]:
    """Print what came after `place`; a file that was rotated away is begun anew."""
    if not path.exists():
        return place
    with path.open("rb") as file:
        inode, size = os.fstat(file.fileno()).st_ino, os.fstat(file.fileno()).st_size
        file.seek(place[1] if inode == place[0] and size >= place[1] else 0)
        for line in file:
            print(line.decode("utf-8", "replace").rstrip("\n"), flush=True)
        return (inode, file.tell())
