"""Named background tasks that end with the server; a failure is logged by name and harms nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from .log import logger

_END_SECONDS = 3.0


class Supervisor:
    """Owns tasks nobody waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as the task `name`."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger("supervisor").error("background task failed", task=task.get_name(), error=repr(error))

    async def close(self) -> None:
        """Cancel what runs; what is deaf is left behind by name after 3 s."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=_END_SECONDS)
        for task in late:
            logger("supervisor").warning("left behind: it ignores its cancel", task=task.get_name())
