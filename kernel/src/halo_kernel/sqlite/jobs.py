"""Functions on their way to a connection's thread, and their outcomes on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """One function, and the future that its caller waits for on its own loop.

    A "step" gets the writer's connection, and runs again after what waits until it returns something true.
    """

    fn: Callable[[Any], Any]
    future: asyncio.Future[Any]
    kind: Literal["write", "read", "step"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """How a function ended: its result, or what its caller gets raised."""

    result: Any = None
    error: BaseException | None = None


def attempt(run: Callable[[], Any]) -> Outcome:
    """Run something and keep how it ended. What a future would take for something else is wrapped."""
    try:
        return Outcome(result=run())
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            return Outcome(error=error)
        wrapped = RuntimeError(f"The function given to the database raised {error!r}.")
        wrapped.__cause__ = error
        return Outcome(error=wrapped)


def deliver(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
    """Hand outcomes to their callers: one wake-up a loop. A loop that is closed has no callers left."""
    ended = [(job.future, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    for loop in {future.get_loop() for future, _ in ended}:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, [each for each in ended if each[0].get_loop() is loop])


def _settle(ended: Sequence[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in ended:
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.result)
        else:
            future.set_exception(outcome.error)
