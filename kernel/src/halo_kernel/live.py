"""Named, lossy topics inside this process."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Any
from weakref import WeakSet

from .errors import BadInput

_TOPIC = re.compile(r"[a-z][a-z0-9_-]*:[a-z][a-z0-9_.-]*")
_HELD = 256


class Subscription:
    """See `contracts.Subscription`."""

    def __init__(self) -> None:
        self.missed = 0
        self.closed = False
        self.waiting: deque[Any] = deque(maxlen=_HELD)
        self.changed = asyncio.Event()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Any:
        while not self.waiting:
            if self.closed:
                raise StopAsyncIteration
            self.changed.clear()
            await self.changed.wait()
        return self.waiting.popleft()

    def close(self) -> None:
        """See `contracts.Subscription.close`."""
        self.closed = True
        self.changed.set()


class Live:
    """See `contracts.Live`."""

    def __init__(self) -> None:
        self._topics: dict[str, WeakSet[Subscription]] = {}

    def publish(self, topic: str, value: object) -> None:
        """See `contracts.Live.publish`."""
        for each in tuple(self._topics.get(topic, ())):
            if not each.closed:
                each.missed += len(each.waiting) == _HELD
                each.waiting.append(value)
                each.changed.set()

    def subscribe(self, topic: str) -> Subscription:
        """See `contracts.Live.subscribe`."""
        if not _TOPIC.fullmatch(topic):
            raise BadInput(f"{topic!r} is no topic: a topic is <plugin>:<noun>, in small letters", field="topic")
        subscription = Subscription()
        self._topics.setdefault(topic, WeakSet()).add(subscription)
        return subscription
