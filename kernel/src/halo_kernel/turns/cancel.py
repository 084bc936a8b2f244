"""Stopping work: asked softly, then cancelled, then left behind by name. Nothing waits for the deaf."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from ..errors import HaloError
from ..supervisor import contained, end_task

T = TypeVar("T")
Reason = Literal["cancelled", "interrupted", "landed"]

DEAF_SECONDS = 5.0


class Stopped(Exception):
    """The work was stopped on request."""


class CancelToken:
    """Whether and why something should stop. The first reason wins, but landing overrides it."""

    def __init__(self) -> None:
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reason: Reason = "cancelled"

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""
        return self.stopped.done()

    def request(self, reason: Reason) -> None:
        """Ask for a stop."""
        if not self.requested or reason == "landed":
            self.reason = reason
        if not self.requested:
            self.stopped.set_result(None)

    async def wait(self) -> None:
        """Return when a stop is asked for."""
        await asyncio.shield(self.stopped)


async def run_stoppable(work: Coroutine[Any, Any, T], token: CancelToken, *, name: str, grace: float = 0.0) -> T:
    """Run `work` until it ends or `token` asks to stop, and return its result.

    After a stop it has `grace` seconds to end by itself, is cancelled, and after 5 s more left behind with a warning.
    Raises `Stopped` unless `work` ended within its grace, and what `work` raises; never a cancel of its own making.
    """
    if token.requested:
        work.close()
        raise Stopped
    task = asyncio.ensure_future(contained(work))
    try:
        waits: set[asyncio.Future[Any]] = {task, token.stopped}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and grace:
            await asyncio.wait({task}, timeout=grace)
        if task.cancelled():
            raise HaloError(f"{name} cancelled itself")
        if task.done():
            return task.result()
    finally:
        await end_task(task, name=name, within=DEAF_SECONDS)
    raise Stopped
