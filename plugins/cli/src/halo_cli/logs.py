"""`halo logs`: the end of the server's log, and what follows."""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from halo_kernel import default_home

from .terminal import note

_STEP = 0.25


def command(argv: Sequence[str]) -> int:
    """Print the last lines of the log; with `-f` go on until Ctrl-C, across rotations."""
    parser = argparse.ArgumentParser(prog="halo logs", description="Print the end of the server's log.")
    parser.add_argument("-n", "--lines", type=_count, default=50, help="number of lines (default: 50)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what follows")
    options = parser.parse_args(list(argv))
    path = default_home(os.environ) / "global" / "logs" / "server.log"
    if not path.exists() and not options.follow:
        note(f"There is no log yet at {path}.")
        return 1
    log = GrowingLog(path)
    _print(log.tail(options.lines))
    while options.follow:
        time.sleep(_STEP)
        _print(log.more())
    return 0


class GrowingLog:
    """A log file that somebody writes, and sometimes renames to begin a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._begun = b""

    def tail(self, count: int) -> Iterable[str]:
        """Return the last `count` lines; one that is not ended yet is left to `more`."""
        return deque(self.more(), maxlen=count)

    def more(self) -> Iterable[str]:
        """Yield the lines that were ended since the last call: first those of the file that was renamed meanwhile."""
        if self._file is not None:
            yield from self._lines(self._file)
            if not self._renamed(self._file):
                return
            self._file.close()
            self._file, self._begun = None, b""
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return
        yield from self._lines(self._file)

    def _lines(self, file: BinaryIO) -> Iterable[str]:
        if os.fstat(file.fileno()).st_size < file.tell():  # emptied in place
            file.seek(0)
            self._begun = b""
        for piece in file:
            if not piece.endswith(b"\n"):
                self._begun += piece
                return
            yield (self._begun + piece).decode("utf-8", "replace").rstrip("\r\n")
            self._begun = b""

    def _renamed(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return True


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines: a whole number from 0")
    return int(text)
