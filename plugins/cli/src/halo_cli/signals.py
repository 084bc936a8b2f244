"""Being asked to end: the first SIGINT or SIGTERM is an exception, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

_PATIENCE = 0.05


class Signalled(BaseException):
    """A signal asks us to end; `code` is the exit code. Like `KeyboardInterrupt`, it is no failure to be caught."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def signals() -> Generator[None]:
    """Turn the first SIGINT or SIGTERM into `Signalled`, in the main thread, whatever it waits for."""
    seen = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        seen.set()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Signalled(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _noticed(seen):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _noticed(seen: threading.Event) -> Generator[None]:
    """Wake a main thread that does not notice a signal.

    Python runs handlers between two instructions: a signal that comes when a wait is about to begin is noticed only
    when that wait ends. So a thread of ours, told of the signal at once, interrupts the wait by another signal.
    """
    if not hasattr(signal, "pthread_kill"):  # Windows
        yield
        return
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    former = signal.signal(signal.SIGURG, _nothing), signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    watch = threading.Thread(target=_wake, args=(told, seen, threading.get_ident()), name="halo.signals", daemon=True)
    watch.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(former[1])
        signal.signal(signal.SIGURG, former[0])
        os.close(tell)
        watch.join()
        os.close(told)


def _wake(told: int, seen: threading.Event, waiter: int) -> None:
    while os.read(told, 1):
        if not seen.wait(_PATIENCE):
            signal.pthread_kill(waiter, signal.SIGURG)  # which tells us again


def _nothing(number: int, frame: FrameType | None) -> None:
    """Be a handler: only a handled signal interrupts a wait."""
