"""What ends the process: signals, the death of the parent, and a deadline that nothing can hold up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

BUDGET = 10.0
TOLD_TO_END = 128 + signal.SIGTERM
TEARDOWN = 1.5
_LOOK = 0.5


class Deadline:
    """Ends the process for certain, whatever still runs: with 0 once all that must be closed is closed."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def begin(self, code: int = 1) -> None:
        """Allow 10 s to end in good order, else end with `code`; only the first call counts.

        Whoever was told to end and could not does so with `TOLD_TO_END`, as a shell tells it: it has not crashed.
        """
        if self._timer is None:
            self._set(BUDGET, code)

    def safe(self) -> None:
        """Allow what is left, which nobody will miss, a moment more."""
        self.met()
        self._set(TEARDOWN, 0)

    def met(self) -> None:
        """Stop the clock: the process ends by itself."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, seconds: float, code: int) -> None:
        self._timer = threading.Timer(seconds, _exit, [code])
        self._timer.daemon = True
        self._timer.start()


def _exit(code: int) -> None:
    if code:
        print("Halo did not stop in time; what was cut is taken up at the next start.", file=sys.stderr, flush=True)
    os._exit(code)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Generator[None]:
    """Call `stop` at the first SIGTERM or SIGINT; the second ends the process at once, even if its loop is blocked.

    Does nothing outside the main thread.
    """
    watched = [signal.SIGTERM, signal.SIGINT] if threading.current_thread() is threading.main_thread() else []

    def handle(number: int, frame: FrameType | None) -> None:
        for each in watched:
            signal.signal(each, signal.SIG_DFL)
        stop()

    before = [signal.signal(each, handle) for each in watched]
    _wake_for_signals()
    try:
        yield
    finally:
        for each, former in zip(watched, before, strict=True):
            signal.signal(each, former)


def _wake_for_signals() -> None:
    """Wake the loop for a signal that the system gave to another thread: only a loop with a handler of its own is."""
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGURG"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGURG, int)


async def parent_ended(pid: int) -> None:
    """Return when the process `pid` has ended; our own parent has when we are somebody else's child."""
    is_parent = os.getppid() == pid
    while os.getppid() == pid if is_parent else _lives(pid):  # noqa: ASYNC110 - no event tells of it everywhere
        await asyncio.sleep(_LOOK)


def _lives(pid: int) -> bool:
    if os.name != "posix":  # there, to ask would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
