"""Functions on their way to a connection's thread, and how they ended on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["write", "read", "step"]


@dataclass(eq=False, kw_only=True)
class Job:
    """One function, how its last run ended, and a future of its caller's loop that is done when the caller may know.

    A "step" is a generator, which goes on after what waits until it is exhausted.
    """

    fn: Any
    kind: Kind
    told: asyncio.Future[None]
    result: Any = None
    error: Exception | None = None

    def run(self, call: Callable[[Any], Any]) -> None:
        """Give the function to `call` and keep how that ended. What would end the caller's task or loop is wrapped."""
        self.result = self.error = None
        try:
            self.result = call(self.fn)
        except Exception as error:
            self.error = error
        except BaseException as error:
            self.error = RuntimeError(f"The function given to the database raised {error!r}.")
            self.error.__cause__ = error


def tell(jobs: Sequence[Job]) -> None:
    """Tell the callers: one wake-up a loop. A loop that is closed has no callers left."""
    for loop in {job.told.get_loop() for job in jobs}:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_wake, [job.told for job in jobs if job.told.get_loop() is loop])


def _wake(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
