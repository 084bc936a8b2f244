"""Clocks for tests: one that jumps, and one that stands still until it is told to go on."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import Literal

_START = 1_800_000_000_000


class VirtualClock:
    """Starts at a fixed instant; `sleep` moves it forward at once."""

    def __init__(self, now: int = _START) -> None:
        self._now = float(now)
        self._ids = itertools.count(1)

    def now(self) -> int:
        """Return UTC milliseconds."""
        return int(self._now)

    def monotonic(self) -> float:
        """Return seconds."""
        return self._now / 1000

    async def sleep(self, seconds: float) -> None:
        """Let others run, then stand `seconds` later."""
        self._now += seconds * 1000
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Stand `seconds` later."""
        self._now += seconds * 1000

    def new_id(self, bits: Literal[64, 128] = 128) -> str:
        """Return the next id, in hex."""
        return f"{next(self._ids):0{bits // 4}x}"


class SteppedClock:
    """Stands still; `sleep` returns when `advance` has brought it that far. Ids are random, as for two servers."""

    def __init__(self, now: int = _START) -> None:
        self._now = now
        self._moved = asyncio.Event()

    def now(self) -> int:
        """Return UTC milliseconds."""
        return self._now

    def monotonic(self) -> float:
        """Return seconds."""
        return self._now / 1000

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock stands `seconds` later."""
        due = self._now + seconds * 1000
        await asyncio.sleep(0)
        while self._now < due:
            await self._moved.wait()

    def advance(self, seconds: float) -> None:
        """Stand `seconds` later, and wake whose time has come."""
        self._now += round(seconds * 1000)
        self._moved.set()
        self._moved = asyncio.Event()

    def new_id(self, bits: Literal[64, 128] = 128) -> str:
        """Return a random id, in hex."""
        return secrets.token_hex(bits // 8)
