"""Time and random ids."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from typing import Literal, Protocol


class Clock(Protocol):
    """Time and random ids; tests give their own."""

    def now(self) -> int:
        """Return UTC milliseconds."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def new_id(self, bits: Literal[64, 128] = 128) -> str:
        """Return a random lower-case hex id (128 bits: a W3C trace id; 64 bits: a span id)."""
