"""Plugins taken out of a kernel that runs, and put back: the two halves of a reload, for plugins that are objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from ..runtime import Kernel


async def retire(kernel: Kernel, name: str) -> None:
    """End what a plugin provides and what runs of it, as the first half of a reload does."""
    inner = cast("Any", kernel)  # a reload is one public act, for plugins that are installed
    end: Callable[[str], Awaitable[None]] = inner._retire
    async with kernel.sessions.gate.hold():
        await end(name)


async def adopt(kernel: Kernel, name: str, plugin: object) -> None:
    """Put a new object in a retired plugin's place and take in what it provides. Raises what a reload does."""
    row = next(row for row in kernel.plugins.list() if row.name == name)
    kernel.plugins.swap(row, plugin)
    inner = cast("Any", kernel)
    begin: Callable[..., Awaitable[None]] = inner._adopt
    async with kernel.sessions.gate.hold():
        await begin(name, strict=True)
