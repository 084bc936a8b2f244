"""What ends the process: signals, the death of the parent, and a deadline that nothing can hold up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from ..presence import is_running

BUDGET = 10.0
TOLD_TO_END = 128 + signal.SIGTERM
TEARDOWN = 1.5
_LOOK = 0.5
_WATCHED = (signal.SIGTERM, signal.SIGINT)


class Deadline:
    """Ends the process for certain, whatever still runs, unless it is `met`."""

    _timer: threading.Timer | None = None

    def set(self, seconds: float, code: int) -> None:
        """End in so many seconds from now with `code`, in place of what was set before.

        The code is 0 when nothing is lost that way; `TOLD_TO_END`, as a shell tells it, when it has not crashed either.
        """
        self.met()
        self._timer = threading.Timer(seconds, _exit, [code])
        self._timer.daemon = True
        self._timer.start()

    def met(self) -> None:
        """Stop the clock: the process ends by itself."""
        if self._timer is not None:
            self._timer.cancel()


def _exit(code: int) -> None:
    if code:
        print("Halo did not stop in time; what was cut is taken up at the next start.", file=sys.stderr, flush=True)
    os._exit(code)


def on_signal(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGTERM or SIGINT; the second ends the process at once, even if its loop is blocked."""

    def handle(number: int, frame: FrameType | None) -> None:
        for each in _WATCHED:
            signal.signal(each, signal.SIG_DFL)
        stop()

    for each in _WATCHED:
        signal.signal(each, handle)
    if hasattr(signal, "SIGURG"):  # a signal that the system gives to another thread wakes only a loop with a handler
        asyncio.get_running_loop().add_signal_handler(signal.SIGURG, int)


async def told_to_end(stopping: asyncio.Event, parent: int | None) -> None:
    """Return when `stopping` is set or the process `parent` has ended; our own has when we are another one's child."""
    is_ours = os.getppid() == parent
    while not stopping.is_set() and (os.getppid() == parent if is_ours else parent is None or is_running(parent)):
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), parent and _LOOK)
