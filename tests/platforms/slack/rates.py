"""Slack's rate limits, when a test turns them on."""

from __future__ import annotations

import math
from collections import defaultdict, deque

from .clock import Clock
from .refusals import Limited
from .rules import TIERS

_MINUTE = 60_000  # milliseconds
_SECOND = 1_000
_BURST = 1
"""Messages a second in one channel; Slack lets short bursts pass and does not say how short."""


class Rates:
    """Counts calls by app and method, and messages by channel."""

    def __init__(self, clock: Clock) -> None:
        self.on = False
        self._clock = clock
        self._calls: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)

    def check(self, app: str, method: str, tier: str, channel: str) -> None:
        """Count a call; refuse it while its minute, or its channel's second, is full."""
        if not self.on:
            return
        if tier == "chat":
            self._take((app, f"message in {channel}"), _BURST, _SECOND)
        else:
            self._take((app, method), TIERS[tier], _MINUTE)

    def _take(self, key: tuple[str, str], most: int, window: int) -> None:
        calls, now = self._calls[key], self._clock.now()
        while calls and calls[0] <= now - window:
            calls.popleft()
        if len(calls) >= most:
            raise Limited(math.ceil((calls[0] + window - now) / 1000))
        calls.append(now)
