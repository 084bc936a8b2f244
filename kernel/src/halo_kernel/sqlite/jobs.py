"""Functions on their way to a connection's thread, and their outcomes on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..contracts import Tx


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """One function, and the future that its caller waits for on its own loop."""

    fn: Callable[[Tx], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    writes: bool


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a function ended: its result, or what its caller gets raised."""

    job: Job
    result: Any = None
    error: BaseException | None = None


def deliver(outcomes: Iterable[Outcome]) -> None:
    """Hand outcomes to their callers: one wake-up a loop. A loop that is closed has no callers left."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.loop, []).append(outcome)
    for loop, ended in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, ended)


def _settle(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        future = outcome.job.future
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.result)
        else:
            future.set_exception(_raisable(outcome.error))


def _raisable(error: BaseException) -> BaseException:
    """Wrap what a future cannot carry without being taken for something else."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"The function given to the database raised {error!r}.")
    wrapped.__cause__ = error
    return wrapped
