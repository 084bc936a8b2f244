"""Any history made valid for a provider: every tool call answered right after it, nothing empty, sides alternating."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from .records import Block, Message, Text, Thinking, ToolCall, ToolResult

INTERRUPTED = "[tool execution interrupted — no result. Do not automatically retry; check what it did first.]"
NOT_RUN = "[this call was not run; it is safe to ask for it again]"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def repair_history(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` as a strict provider accepts them; valid ones come back unchanged, and twice is once.

    The first message is the user's. Each call has a name that can be a tool's and exactly one result, at the head of
    the next user message; a missing one is made up as an error; results without their call, empty texts and empty
    messages are left out.
    """
    exchanges: list[tuple[Sequence[Block], list[Block]]] = [((), [])]  # an answer, and what follows up to the next one
    for message in messages:
        if message.role == "assistant":
            exchanges.append((message.content, []))
        else:
            exchanges[-1][1].extend(message.content)
    repaired: list[Message] = []
    seen: set[str] = set()
    for answer, following in exchanges:
        said = _said(answer, seen)
        _add(repaired, "assistant", said)
        _add(repaired, "user", [*_results(said, following), *(block for block in following if _is_said(block))])
    if repaired and repaired[0].role == "assistant":
        repaired.insert(0, Message("user", (Text("[the conversation starts here]"),)))
    return tuple(repaired)


def _said(answer: Sequence[Block], seen: set[str]) -> Sequence[Block]:
    """Drop calls whose id was used before (a provider pairs results by id), and thinking that led to nothing."""
    kept: list[Block] = []
    for block in answer:
        if isinstance(block, ToolCall) and block.id not in seen:
            seen.add(block.id)
            kept.append(_named(block))
        elif isinstance(block, Thinking) or _is_said(block):
            kept.append(block)
    return () if all(isinstance(block, Thinking) for block in kept) else kept


def _is_said(block: Block) -> bool:
    return isinstance(block, Text) and bool(block.text.strip())


def _named(call: ToolCall) -> ToolCall:
    """Give a call of a tool that a model made up a name under which a provider takes it back."""
    name = _NO_NAME.sub("_", call.name)[:64] or "_"
    return call if name == call.name else ToolCall(call.id, name, call.arguments)


def _results(said: Sequence[Block], following: Sequence[Block]) -> list[ToolResult]:
    """Return one result for each call."""
    results: dict[str, ToolResult] = {}
    for block in following:
        if isinstance(block, ToolResult):
            results.setdefault(block.call, block)
    calls = [block.id for block in said if isinstance(block, ToolCall)]
    return [results.get(call, ToolResult(call, INTERRUPTED, True)) for call in calls]


def _add(messages: list[Message], role: Literal["user", "assistant"], content: Sequence[Block]) -> None:
    if content and messages and messages[-1].role == role:
        messages[-1] = Message(role, (*messages[-1].content, *content))
    elif content:
        messages.append(Message(role, tuple(content)))
