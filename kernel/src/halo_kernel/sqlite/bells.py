"""Waking waiters of this process: bells, each of which listens to a topic."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ..errors import StorageUnavailable


class SqliteBell:
    """Wakes a waiter on the loop where it was made. Rings between two waits are merged into one.

    `bells` are those that listen; any thread adds, removes and rings, since each of these is one call.
    """

    def __init__(self, bells: set[SqliteBell], topic: str) -> None:
        self.topic = topic
        self._bells = bells
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        bells.add(self)

    async def wait(self) -> None:
        """Return once the topic was notified after the last `wait`, or listening has ended meanwhile.

        Raises `StorageUnavailable` when it had ended before.
        """
        if self not in self._bells:
            raise StorageUnavailable(f"Nobody listens to {self.topic!r} any more.")
        await self._rung.wait()
        self._rung.clear()

    def close(self) -> None:
        """Stop listening; who waits is woken."""
        self._bells.discard(self)
        self.ring()

    def ring(self) -> None:
        """Wake the waiter; from any thread. A loop that is closed has none."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)
