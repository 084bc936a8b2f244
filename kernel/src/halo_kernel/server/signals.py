"""What ends the process: signals, the death of the parent, and a deadline that nothing can hold up."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

BUDGET = 10.0
_LOOK = 0.5


class Deadline:
    """Ends the process for certain, whatever still runs: `begin` starts the clock, a later one can only shorten it.

    The exit code is 0 when all that must be closed was closed (`safe`), else 1.
    """

    def __init__(self) -> None:
        self.safe = False
        self._until = math.inf
        self._timer: threading.Timer | None = None

    def begin(self, seconds: float = BUDGET) -> float:
        """Allow `seconds` from now, or what is left of an earlier allowance; return how many are left."""
        now = time.monotonic()
        if now + seconds < self._until:
            self.met()
            self._until = now + seconds
            self._timer = threading.Timer(seconds, self._end)
            self._timer.daemon = True
            self._timer.start()
        return self._until - now

    def met(self) -> None:
        """Stop the clock: the process ends by itself."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        if not self.safe:
            print("Halo did not stop in time; what was cut is taken up at the next start.", file=sys.stderr, flush=True)
        os._exit(0 if self.safe else 1)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Generator[None]:
    """Call `stop` at the first SIGTERM or SIGINT, and end at once at the second. Does nothing outside the main thread.

    Plain handlers rather than the loop's: the second signal must work while the loop is blocked.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            os._exit(128 + number)
        seen = True
        stop()

    watched = [signal.SIGTERM, signal.SIGINT]
    before = [signal.signal(each, handle) for each in watched]
    try:
        yield
    finally:
        for each, former in zip(watched, before, strict=True):
            signal.signal(each, former)


async def parent_ended(pid: int) -> None:
    """Return when the process `pid` has ended."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:
            pass  # an old kernel
        else:
            await _readable(descriptor)
            return
    while _lives(pid):  # noqa: ASYNC110 - no event tells of it here
        await asyncio.sleep(_LOOK)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _lives(pid: int) -> bool:
    if os.name != "posix":
        return os.getppid() == pid
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
