"""Saying what takes long, while it does."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from .terminal import note, shown

_PATIENCE = 2.0
_ON_SCREEN = 1.0
_IN_PIPE = 10.0


@contextmanager
def waiting(what: str, *, in_pipe: bool = True) -> Generator[None]:
    """Say on stderr what happens, for as long as the context lasts.

    On a terminal it is one line with the seconds so far, from two seconds on, which goes in the end. Else, if
    `in_pipe`, it is a line each ten seconds.
    """
    on_screen = sys.stderr is not None and sys.stderr.isatty()
    if not (on_screen or in_pipe):
        yield
        return
    over = threading.Event()
    tell = _on_screen if on_screen else _in_pipe
    teller = threading.Thread(target=tell, args=(what, over), name="halo.progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _in_pipe(what: str, over: threading.Event) -> None:
    began = time.monotonic()
    while not over.wait(_IN_PIPE):
        with suppress(OSError):
            note(f"{what} … {time.monotonic() - began:.0f} s")


def _on_screen(what: str, over: threading.Event) -> None:
    began, pause, line = time.monotonic(), _PATIENCE, ""
    while not over.wait(pause):
        line, pause = f"{shown(what, sys.stderr)} … {time.monotonic() - began:.0f} s", _ON_SCREEN
        _write(f"\r{line}")
    _write(f"\r{' ' * len(line)}\r" if line else "")


def _write(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
