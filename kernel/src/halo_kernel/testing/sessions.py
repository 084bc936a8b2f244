"""Sessions for tests: one made in a folder, its journal whole, and waiting for what must come to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ..records import OPERATOR, Event, Principal
from ..runtime import Kernel
from ..sessions import Session
from ..supervisor import given

_STEP = 0.01


async def a_session(kernel: Kernel, folder: Path, principal: Principal = OPERATOR) -> Session:
    """Return a new session in `folder`, which is made if it is missing and opened as a workspace."""
    folder.mkdir(exist_ok=True)
    workspace = await kernel.host.workspaces.open(folder)
    return await kernel.host.sessions.create(workspace=workspace.id, principal=principal)


async def journal(session: Session) -> list[Event]:
    """Return all events of a session so far."""
    return [update.event async for update in session.events() if update.event]


async def until(condition: Callable[[], object], seconds: float = 5.0, *, what: str = "it") -> None:
    """Return when `condition` is true, a plain function or one to be awaited.

    Raises `AssertionError` that `what` did not come to pass when it is not within `seconds`.
    """
    await soon(condition, f"{what} did not come to pass within {seconds:g} s", seconds)


async def soon(condition: Callable[[], object], complaint: str | Callable[[], str], seconds: float) -> None:
    """Return when `condition` is true, a plain function or one to be awaited; else raise `AssertionError` in words."""
    if not await unless(condition, seconds):
        raise AssertionError(complaint if isinstance(complaint, str) else complaint())


async def unless(seen: Callable[[], object], seconds: float) -> bool:
    """Return False after `seconds`, or True when `seen` is true, a plain function or one to be awaited."""
    for _ in range(int(seconds / _STEP)):
        if await given(seen):
            return True
        await asyncio.sleep(_STEP)
    return False
