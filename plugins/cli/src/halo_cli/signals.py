"""Being asked to end: the first SIGINT or SIGTERM is an exception, the second ends the process at once."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Signalled(BaseException):
    """A signal asks us to end; `code` is the exit code. Like `KeyboardInterrupt`, it is no failure to be caught."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def signals() -> Generator[None]:
    """Turn the first SIGINT or SIGTERM into `Signalled`."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Signalled(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
