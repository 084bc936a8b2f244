"""What a test must not do unseen: leave something behind, or block the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

from .blocking import LIMIT, LoopWatch
from .leaks import LeakGuard


@asynccontextmanager
async def guarded(
    *, may_leak: Collection[str] = (), limit: float | None = LIMIT, settle: float = 2.0
) -> AsyncGenerator[LoopWatch, None]:
    """Raise `AssertionError` at the end when something is left that was not there before, or the loop was blocked.

    `may_leak` leaves kinds out (`task`, `thread`, `file`, `process`). `limit` is the longest step of a task in seconds,
    None for any; `settle` how long what is left has to end by itself.
    """
    guard = LeakGuard(may_leak=may_leak)
    with LoopWatch(limit=float("inf") if limit is None else limit) as watch:
        yield watch
    left = await guard.left(settle=settle)
    complaints = [str(block) for block in watch.blocks] + [f"left behind: {each}" for each in left]
    if complaints:
        raise AssertionError("\n".join(complaints))
