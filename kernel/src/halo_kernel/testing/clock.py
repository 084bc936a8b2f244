"""A clock that jumps: sleeping takes no time, and every id is in order."""

from __future__ import annotations

import asyncio
import itertools
from typing import Literal


class VirtualClock:
    """Starts at a fixed instant; `sleep` moves it forward at once."""

    def __init__(self, now: int = 1_800_000_000_000) -> None:
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
