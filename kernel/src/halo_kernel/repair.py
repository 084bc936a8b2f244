"""Any history made valid for a provider: every tool call answered right after it, nothing empty, sides alternating."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    return _alternating(_paired([_without_empty(message) for message in messages]))


def _without_empty(message: Message) -> Message:
    kept = tuple(block for block in message.content if type(block) is not Text or block.text.strip())
    return message if len(kept) == len(message.content) else Message(message.role, kept)


def _paired(messages: Sequence[Message]) -> list[Message]:
    """Give every assistant message the results of exactly its calls, wherever up to the next one they stand."""
    paired: list[Message] = []
    seen: set[str] = set()
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.role == "user":
            paired.append(Message("user", _texts(message.content)))
            continue
        content = _fresh(message.content, seen)
        following: list[Block] = []
        while position < len(messages) and messages[position].role == "user":
            following.extend(messages[position].content)
            position += 1
        paired.append(Message("assistant", content))
        paired.append(Message("user", (*_answers(content, following), *_texts(following))))
    return paired


def _fresh(content: Sequence[Block], seen: set[str]) -> tuple[Block, ...]:
    """Drop calls whose id was used before (a provider pairs results by id), and thinking that led to nothing."""
    kept: list[Block] = []
    for block in content:
        if isinstance(block, ToolResult):
            continue
        if isinstance(block, ToolCall):
            if block.id in seen:
                continue
            seen.add(block.id)
            block = _named(block)
        kept.append(block)
    return () if all(isinstance(block, Thinking) for block in kept) else tuple(kept)


def _named(call: ToolCall) -> ToolCall:
    """Give a call of a tool that a model made up a name under which a provider takes it back."""
    name = _NO_NAME.sub("_", call.name)[:64] or "_"
    return call if name == call.name else ToolCall(call.id, name, call.arguments)


def _answers(content: Sequence[Block], following: Sequence[Block]) -> list[Block]:
    results: dict[str, ToolResult] = {}
    for block in following:
        if isinstance(block, ToolResult):
            results.setdefault(block.call, block)
    calls = [block.id for block in content if isinstance(block, ToolCall)]
    return [results.get(call, ToolResult(call, INTERRUPTED, True)) for call in calls]


def _texts(content: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(block for block in content if isinstance(block, Text))


def _alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    joined: list[Message] = []
    for message in messages:
        if not message.content:
            continue
        if joined and joined[-1].role == message.role:
            joined[-1] = Message(message.role, (*joined[-1].content, *message.content))
        else:
            joined.append(message)
    if joined and joined[0].role == "assistant":
        joined.insert(0, Message("user", (Text("[the conversation starts here]"),)))
    return tuple(joined)
