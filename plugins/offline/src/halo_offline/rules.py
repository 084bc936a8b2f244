"""The provider: rules in place of a model, stateless, with the session's own tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from halo_kernel import Chunk, ModelRequest, Offer, Stop, TextDelta, ToolCall, Usage

_DELTA = 24
Respond = Callable[[ModelRequest], "str | tuple[ToolCall, ...]"]


class Rules:
    """Answers questions about files by rules. It is no model and says so in every answer."""

    name = "offline"

    def __init__(self) -> None:
        self._respond: Respond | None = None

    async def offers(self) -> Sequence[Offer]:
        """Return the one offer: always ready, behind everything that is a model."""
        reason = "no model is configured; built-in rules answer"
        return (
            Offer(model="offline/rules", ready=True, rank=90, is_model=False, reason=reason, label="built-in rules"),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Yield the tool calls that the answer needs next, or the answer itself once nothing is missing."""
        if self._respond is None:
            self._respond = await asyncio.to_thread(_load)
        step = self._respond(request)
        if isinstance(step, str):
            for at in range(0, len(step), _DELTA):
                yield TextDelta(step[at : at + _DELTA])
                await asyncio.sleep(0)
        else:
            for call in step:
                yield call
        yield Usage()
        yield Stop("end" if isinstance(step, str) else "tools")

    async def close(self) -> None:
        """Nothing is held."""


def _load() -> Respond:
    """Import the rules: they compile their expressions for 50 ms, which a start without them does not wait for."""
    from .response import respond

    return respond
