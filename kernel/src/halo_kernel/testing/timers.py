"""What the event loop is to call later: callbacks that somebody has set and not cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast


def timers() -> Mapping[asyncio.TimerHandle, str]:
    """Return the running loop's timers that nobody cancelled, each told by what it calls.

    Those of asyncio itself, which a sleeping task has, are not among them, and none of a loop that does not tell.
    """
    loop = cast("Any", asyncio.get_running_loop())
    found: list[asyncio.TimerHandle] = getattr(loop, "_scheduled", [])
    return {handle: f"timer {handle!r}" for handle in found if not handle.cancelled() and not _is_asyncios(handle)}


def _is_asyncios(handle: asyncio.TimerHandle) -> bool:
    callback = cast("Any", handle)._callback
    return str(getattr(callback, "__module__", "")).startswith("asyncio.")
