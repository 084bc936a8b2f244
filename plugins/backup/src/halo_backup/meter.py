"""Saying how far something is and how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

_PATIENCE = 2.0
_ON_SCREEN = 0.25
_IN_PIPE = 10.0


@dataclass
class Meter:
    """Says on stderr what happens; on a terminal in one line that goes in the end, else in a line each ten seconds."""

    on_screen: bool = field(default_factory=lambda: sys.stderr is not None and sys.stderr.isatty())
    clock: Callable[[], float] = time.monotonic
    _phase: tuple[str, int] = ("", 0)
    _width: int = 0

    def __post_init__(self) -> None:
        self._began = self._started = self._said = self.clock()

    def tell(self, what: str, done: int, total: int) -> None:
        """Take what happens, and how many bytes of how many are done; say so if it is time."""
        now = self.clock()
        if (kind := (what.partition(" ")[0], total)) != self._phase:
            self._phase, self._started = kind, now
        if now - self._said < (_ON_SCREEN if self.on_screen else _IN_PIPE):
            return
        if not self.on_screen or now - self._began >= _PATIENCE:
            self._said = now
            self._write(f"{what}: {far(done, total, now - self._started)}")

    def close(self) -> None:
        """Take the line away."""
        if self._width:
            _put("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        if self.on_screen:
            _put("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            _put(text + "\n")


def far(done: int, total: int, seconds: float) -> str:
    """Return how far it is after so many seconds, and how long the rest will take at this rate."""
    text = f"{100 * done // total} % of {size(total)}" if total else size(done)
    if seconds < 1 or not 0 < done < total:
        return text
    return f"{text}, about {seconds * (total - done) / done:.0f} s left"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def _put(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
