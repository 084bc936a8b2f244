"""`halo logs`: the end of the server's log, and what follows."""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from halo_kernel import default_home

from .terminal import answer, note

_STEP = 0.25
_MOST = 100


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
    """A log that somebody writes: now and then the file is renamed to `<name>.1`, `.1` to `.2`, and a new one begun."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._begun = b""

    def tail(self, count: int) -> Iterable[str]:
        """Return the last `count` lines; one that is not ended yet is left to `more`."""
        return deque(self.more(), maxlen=count)

    def more(self) -> Iterable[str]:
        """Yield the lines that were ended since the last call, through all files that were renamed meanwhile."""
        if self._file is None:
            self._file = _opened(self._path)
        while self._file is not None:
            yield from self._lines(self._file)
            following = self._following(self._file)
            if following is None:
                return
            yield from self._lines(self._file)  # what was written before it was renamed
            if self._begun:
                yield _text(self._begun)
            self._file.close()
            self._file, self._begun = following, b""

    def _lines(self, file: BinaryIO) -> Iterable[str]:
        if os.fstat(file.fileno()).st_size < file.tell():  # emptied in place
            file.seek(0)
            self._begun = b""
        for piece in file:
            if not piece.endswith(b"\n"):
                self._begun += piece
                return
            yield _text(self._begun + piece)
            self._begun = b""

    def _following(self, file: BinaryIO) -> BinaryIO | None:
        """Return the file that was begun after one that was renamed, opened; None while there is none."""
        while (place := self._place(file)) != 0:
            following = _opened(self._numbered(self._oldest() if place is None else place - 1))
            if following is None or self._place(file) == place:  # else all were renamed once more while we looked
                return following
            following.close()
        return None

    def _place(self, file: BinaryIO) -> int | None:
        """Return how often a file was renamed, None when it has been deleted since."""
        mine = os.fstat(file.fileno())
        for number in range(_MOST + 1):  # upwards, as they are renamed, so that none slips by
            with suppress(FileNotFoundError):
                if os.path.samestat(mine, self._numbered(number).stat()):
                    return number
        return None

    def _oldest(self) -> int:
        return max((number for number in range(1, _MOST + 1) if self._numbered(number).exists()), default=0)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        answer(line)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines: a whole number from 0")
    return int(text)
