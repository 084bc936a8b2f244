"""Waking waiters of this process: topics, and the bells that listen to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress

from ..errors import StorageUnavailable


class SqliteBell:
    """Wakes a waiter on the loop where it was made. Rings between two waits are merged into one."""

    def __init__(self, bells: Bells, topic: str) -> None:
        self.topic = topic
        self._bells = bells
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._closed = False

    async def wait(self) -> None:
        """Return once the topic was notified after the last `wait`, or listening has ended meanwhile.

        Raises `StorageUnavailable` when it had ended before.
        """
        if self._closed:
            raise StorageUnavailable(f"Nobody listens to {self.topic!r} any more.")
        await self._rung.wait()
        self._rung.clear()

    def close(self) -> None:
        """Stop listening."""
        self._bells.remove(self)
        self._closed = True
        self.ring()

    def ring(self) -> None:
        """Wake the waiter; from any thread. A loop that is closed has none."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)


class Bells:
    """All bells of one database."""

    def __init__(self) -> None:
        self._by_topic: dict[str, set[SqliteBell]] = {}
        self._changing = threading.Lock()

    @property
    def listening(self) -> bool:
        """Whether any bell listens."""
        return bool(self._by_topic)

    def add(self, topic: str) -> SqliteBell:
        """Return a bell that is already listening."""
        bell = SqliteBell(self, topic)
        with self._changing:
            self._by_topic.setdefault(topic, set()).add(bell)
        return bell

    def remove(self, bell: SqliteBell) -> None:
        """Forget a bell, if it is not forgotten."""
        with self._changing:
            left = self._by_topic.get(bell.topic, set())
            left.discard(bell)
            if not left:
                self._by_topic.pop(bell.topic, None)

    def ring(self, topic: str | None) -> None:
        """Ring the bells of a topic, of all topics for None."""
        for bell in self._of(topic):
            bell.ring()

    def close(self) -> None:
        """End all listening; who waits is woken."""
        for bell in self._of(None):
            bell.close()

    def _of(self, topic: str | None) -> Iterable[SqliteBell]:
        with self._changing:
            topics = list(self._by_topic) if topic is None else [topic]
            return [bell for name in topics for bell in self._by_topic.get(name, ())]
