"""A tool for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..contracts import Call
from ..records import Effect, ToolSpec


class NoteTool:
    """Writes down each call's argument `text` in `seen`; `wait` may hold a call up."""

    def __init__(
        self, name: str = "note", effect: Effect = "write", wait: Callable[[Call], object] | None = None
    ) -> None:
        self.spec = ToolSpec(name=name, description="Write it down.", parameters={"type": "object"}, effect=effect)
        self.seen: list[object] = []
        self._wait = wait

    async def run(self, call: Call) -> str:
        """Note it."""
        self.seen.append(call.arguments.get("text"))
        if self._wait is not None:
            answer = self._wait(call)
            if asyncio.iscoroutine(answer):
                await answer
        return f"noted {call.arguments.get('text')}"
