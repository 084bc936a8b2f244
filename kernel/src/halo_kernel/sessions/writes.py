"""The writes that a session is busy with: it is neither put to rest nor closed before they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Writes(set[asyncio.Task[Any]]):
    """Tasks that have not ended."""

    def track(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a write; whoever waits for it has its error."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task
