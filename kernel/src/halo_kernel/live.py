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
    """What is published from now on, in order; ends when it is closed. Dropping it closes it."""

    def __init__(self) -> None:
        self.missed = 0  # How many values were dropped, always the oldest, because nobody took them in time.
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
        """Take no more; values that wait can still be had."""
        self.closed = True
        self.changed.set()


class Live:
    """Lossy topics, `<plugin>:<noun>`, such as `cron:run_changed`. Use it on the event loop's thread."""

    def __init__(self) -> None:
        self._topics: dict[str, WeakSet[Subscription]] = {}

    def publish(self, topic: str, value: object) -> None:
        """Hand a value to those of this process who listen now; never waits, and costs nothing when nobody does."""
        for each in tuple(self._topics.get(topic, ())):
            if not each.closed:
                each.missed += len(each.waiting) == _HELD
                each.waiting.append(value)
                each.changed.set()

    def subscribe(self, topic: str) -> Subscription:
        """Listen from now on. Raises `BadInput` for a topic of another form."""
        if not _TOPIC.fullmatch(topic):
            raise BadInput(f"{topic!r} is no topic: a topic is <plugin>:<noun>, in small letters", field="topic")
        subscription = Subscription()
        self._topics.setdefault(topic, WeakSet()).add(subscription)
        return subscription
