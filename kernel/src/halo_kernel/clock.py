"""Time and random ids of the real world."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Literal


class SystemClock:
    """The machine's clock and its randomness."""

    def now(self) -> int:
        """Return UTC milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def new_id(self, bits: Literal[64, 128] = 128) -> str:
        """Return a random lower-case hex id."""
        return secrets.token_hex(bits // 8)
