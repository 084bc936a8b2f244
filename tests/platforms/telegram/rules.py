"""The platform's limits and switches, and how often a bot may send."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

MIB = 1024 * 1024
CHAT_SECONDS = 1
GROUP_SENDS, GROUP_SECONDS = 20, 60
ALL_SENDS, ALL_SECONDS = 30, 1


@dataclass(frozen=True)
class Rules:
    """What the platform holds to. Sizes in bytes, texts in UTF-16 units, times in seconds."""

    text: int = 4096
    caption: int = 1024
    upload: int = 50 * MIB
    photo: int = 10 * MIB
    download: int = 20 * MIB
    topic_name: int = 128
    flood: bool = False
    """Whether a bot may send 1 message a second to a chat, 20 a minute to a group, 30 a second in all."""
    plain_webhooks: bool = True
    """Whether a webhook on loopback may do without TLS and on any port."""
    webhook_backoff: float = 1.0
    """The first wait after an update was not taken; each further one is twice as long."""
    webhook_patience: float = 60.0
    """How long a webhook may take to answer."""

    def changed(self, **changes: Any) -> Rules:
        """Return other rules."""
        return replace(self, **changes)


@dataclass
class Clock:
    """The platform's time: the machine's, moved by what a test adds; `frozen` stands still but for that."""

    read: Callable[[], float] = time.time
    ahead: float = 0.0
    frozen: float | None = None

    def now(self) -> float:
        """Return the seconds since 1970."""
        return (self.read() if self.frozen is None else self.frozen) + self.ahead


@dataclass
class Flood:
    """When one bot sent."""

    all: deque[float] = field(default_factory=deque)
    chats: dict[int, deque[float]] = field(default_factory=dict)

    def wait(self, chat_id: int, *, group: bool, now: float) -> int:
        """Return for how many whole seconds the bot has to wait; 0 counts as sent."""
        sent = self.chats.setdefault(chat_id, deque())
        waits = [_left(self.all, ALL_SENDS, ALL_SECONDS, now), _left(sent, 1, CHAT_SECONDS, now)]
        if group:
            waits.append(_left(sent, GROUP_SENDS, GROUP_SECONDS, now))
        if (longest := max(waits)) > 0:
            return math.ceil(longest)
        for each in (self.all, sent):
            each.append(now)
            while each[0] <= now - GROUP_SECONDS:
                each.popleft()
        return 0


def _left(sent: deque[float], most: int, seconds: float, now: float) -> float:
    """Return how long until fewer than `most` were sent within the last `seconds`."""
    return sent[-most] + seconds - now if len(sent) >= most else 0.0
