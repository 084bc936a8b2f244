"""A workbench with the plugin, and a strict model of a small window."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Sequence

import pytest

from halo_kernel import (
    Chunk,
    Message,
    ModelError,
    ModelRequest,
    Offer,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    tokens_of,
)
from halo_kernel.testing import Answer, ScriptedModel, Step

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def complaint(messages: Sequence[Message]) -> str:
    """Return the first rule of the strictest provider that a conversation breaks, '' if it breaks none."""
    used: set[str] = set()
    for place, message in enumerate(messages):
        calls = [block for block in message.content if isinstance(block, ToolCall)]
        results = [block.call for block in message.content if isinstance(block, ToolResult)]
        before = messages[place - 1].content if place else ()
        wanted = [block.id for block in before if isinstance(block, ToolCall)]
        if message.role != ("assistant" if place % 2 else "user"):
            return f"message {place}: sides must alternate, the user first"
        if not message.content or any(isinstance(b, Text) and not b.text.strip() for b in message.content):
            return f"message {place}: nothing may be empty"
        if results != wanted or not all(isinstance(block, ToolResult) for block in message.content[: len(results)]):
            return f"message {place}: one result a call, in order, at its head"
        if any(call.id in used or not NAME.fullmatch(call.name) for call in calls):
            return f"message {place}: ids are unique and names are names"
        used.update(call.id for call in calls)
    return "the end must be the user's" if messages and messages[-1].role == "assistant" else ""


class StrictModel(ScriptedModel):
    """A model that refuses what a real one refuses, and any call of more than `window` tokens."""

    window = 4000
    offered = 4000

    async def offers(self) -> Sequence[Offer]:
        """Offer one model, with as large a window as it says it has."""
        return [Offer(model="scripted/model", ready=True, reason="for a test", context_window=self.offered)]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Check the call, then play the next step; tokens are counted as the kernel estimates them."""
        if wrong := complaint(request.messages):
            raise ModelError(wrong, kind="refused")
        blocks = [block for message in request.messages for block in message.content]
        tokens, answer = tokens_of(request.system, repr(request.tools), *blocks), ""
        if tokens > self.window:
            self.requests.append(request)
            raise ModelError(f"prompt is too long: {tokens} tokens > {self.window} maximum", kind="overflow")
        async for chunk in super().stream(request):
            answer += chunk.text if isinstance(chunk, TextDelta) else repr(chunk) if isinstance(chunk, ToolCall) else ""
            yield Usage(input=tokens, output=tokens_of(answer)) if isinstance(chunk, Usage) else chunk


def summarising(request: ModelRequest) -> Step:
    """Answer a wish for a summary with one, all else with an echo."""
    last = next(block.text for block in reversed(request.messages[-1].content) if isinstance(block, Text))
    return Answer("they talked" if request.purpose == "compaction" else f"echo: {last}")


@pytest.fixture
def halo_plugins() -> Iterable[object]:
    """The plugin under test."""
    return ["halo_compaction"]


@pytest.fixture
def scripted_model() -> StrictModel:
    """The strict model; it summarises when asked to."""
    return StrictModel(responder=summarising)
