"""Tasks that become more: in a server that runs, others end and begin all the time."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from .places import frames_of_coroutine, place_of

_STEP = 0.02


def tasks_by_place() -> Counter[str]:
    """Return how many tasks there are of each name and place at which they wait, the current one left out."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return Counter(_told(each) for each in tasks)


async def grown(before: Counter[str], *, settle: float = 2.0) -> list[str]:
    """Return a line for each task that there is beyond those `before`; what ends within `settle` seconds is not."""
    loop = asyncio.get_running_loop()
    end = loop.time() + settle
    while more := tasks_by_place() - before:
        if loop.time() > end:
            break
        await asyncio.sleep(_STEP)
    return sorted(more.elements())


def _told(task: asyncio.Task[object]) -> str:
    name = re.sub(r"\ATask-\d+\Z", "Task", task.get_name())
    return f"task {name!r}, waiting at {place_of(frames_of_coroutine(task.get_coro()))}"
