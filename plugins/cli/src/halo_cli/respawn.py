"""Whether a server that has ended is started again, and when."""

from __future__ import annotations

import signal
from collections.abc import Sequence

LIMIT = 5
WINDOW = 300.0
FIRST_PAUSE = 0.5
_ASKED = (signal.SIGTERM, signal.SIGINT)


def is_crash(code: int) -> bool:
    """Tell whether a server ended though nobody asked it to; `code` is as `Popen` gives it, negative for a signal."""
    return code != 0 and code not in {*(-number for number in _ASKED), *(128 + number for number in _ASKED)}


def next_pause(restarts: Sequence[float], now: float) -> float | None:
    """Return how many seconds to wait before the next restart, doubled each time; None after too many of late.

    `restarts` says when each was, in the seconds of the clock that `now` was read from.
    """
    recent = sum(now - at < WINDOW for at in restarts)
    return FIRST_PAUSE * 2**recent if recent < LIMIT else None


def describe(code: int) -> str:
    """Return an exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
