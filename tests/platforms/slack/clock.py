"""The time of the platform, and how long it waits for what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

_T = TypeVar("_T")


class Clock(Protocol):
    """What the platform asks of a clock; the kit's `SteppedClock` is one."""

    def now(self) -> int:
        """Return UTC milliseconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class RealClock:
    """The machine's."""

    def now(self) -> int:
        """Return UTC milliseconds."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds; the defaults are Slack's.

    `ack` is how long an app may take to acknowledge; `retries` how long Slack waits before each new attempt of an
    event; `warning` lies between a warning and the refresh of a socket; `ping` between two pings of the server;
    `trigger` is the life of a trigger id, `ticket` that of a socket's address, `stream` that of a streamed message,
    `response_url` that of such a URL.
    """

    ack: float = 3.0
    retries: tuple[float, ...] = (0.0, 60.0, 300.0)
    warning: float = 10.0
    ping: float = 20.0
    trigger: float = 3.0
    ticket: float = 30.0
    stream: float = 306.0
    response_url: float = 1800.0

    def scaled(self, factor: float) -> Self:
        """Return the same deadlines, each `factor` times as long."""
        times = {name: value * factor for name, value in vars(self).items() if name != "retries"}
        return replace(self, retries=tuple(each * factor for each in self.retries), **times)


async def within(clock: Clock, seconds: float, awaited: Awaitable[_T]) -> _T:
    """Return what `awaited` returns, or raise `TimeoutError` when the clock is `seconds` further first."""
    work = asyncio.ensure_future(awaited)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise TimeoutError
        return work.result()
    finally:
        timer.cancel()
        work.cancel()
