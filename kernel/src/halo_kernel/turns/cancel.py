"""Stopping work: asked softly, then cancelled, then left behind by name. Nothing waits for the deaf."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from ..log import logger

T = TypeVar("T")
Reason = Literal["cancelled", "interrupted", "landed"]

DEAF_SECONDS = 5.0
_left_behind: set[asyncio.Task[Any]] = set()


class Stopped(Exception):
    """The work was stopped on request."""


class CancelToken:
    """Whether and why something should stop. The first reason wins, but landing overrides it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: Reason = "cancelled"

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._event.is_set()

    def request(self, reason: Reason) -> None:
        """Ask for a stop."""
        if not self.requested or reason == "landed":
            self.reason = reason
        self._event.set()

    async def wait(self) -> None:
        """Return when a stop is asked for."""
        await self._event.wait()

    def check(self) -> None:
        """Raise `Stopped` when a stop was asked for."""
        if self.requested:
            raise Stopped


async def run_stoppable(work: Coroutine[Any, Any, T], token: CancelToken, *, name: str, grace: float = 0.0) -> T:
    """Run `work` until it ends or `token` asks to stop, and return its result.

    After a stop it has `grace` seconds to end by itself, is cancelled, and after 5 s more left behind with a warning.
    Raises `Stopped` unless `work` ended within its grace.
    """
    if token.requested:
        work.close()
        raise Stopped
    task = asyncio.ensure_future(work)
    waiter = asyncio.ensure_future(token.wait())
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and grace:
            await asyncio.wait({task}, timeout=grace)
        if task.done():
            return task.result()
    finally:
        waiter.cancel()
        await _end(task, name)
    raise Stopped


async def _end(task: asyncio.Task[Any], name: str) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=DEAF_SECONDS)
    if not task.done():
        logger("turns").warning("left behind: it ignores its cancel", work=name)
        _left_behind.add(task)
        task.add_done_callback(_forget)
    elif not task.cancelled():
        task.exception()


def _forget(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()
