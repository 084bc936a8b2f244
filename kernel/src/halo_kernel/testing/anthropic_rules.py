"""What the Messages API refuses, in its own words: a scripted server that took everything would prove nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
Content = Sequence[Json]

_THOUGHTS = ("thinking", "redacted_thinking")


def signed(thinking: str) -> str:
    """Return the signature of a thinking block, by which it is known again."""
    return f"signed-{hashlib.sha256(thinking.encode()).hexdigest()[:16]}"


def complaint(body: Json) -> str:
    """Return the first thing that is wrong with a request, '' if nothing is."""
    return next(_complaints(body), "")


def _complaints(body: Json) -> Iterator[str]:
    for name in ("model", "max_tokens", "messages"):
        if not body.get(name):
            yield f"{name}: Field required"
    messages: Content = body.get("messages") or []
    contents = [_blocks(message) for message in messages]
    for at, (message, content) in enumerate(zip(messages, contents, strict=True)):
        if message.get("role") not in ("user", "assistant"):
            yield f"messages.{at}.role: Input should be 'user' or 'assistant'"
        if not content:
            yield f"messages.{at}: all messages must have non-empty content"
        yield from _of_blocks(at, content)
    yield from _of_pairs(contents)
    yield from _of_thinking(body, contents)
    tools: Content = body.get("tools") or []
    marked = [block for blocks in (_blocks(body, "system"), tools, *contents) for block in blocks]
    breakpoints = sum("cache_control" in block for block in marked)
    if breakpoints > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {breakpoints}."


def _blocks(holder: Json, name: str = "content") -> Content:
    content: str | Content = holder.get(name) or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _of_blocks(at: int, content: Content) -> Iterator[str]:
    for place, block in enumerate(content):
        if block.get("type") == "text" and not block.get("text", "").strip():
            yield "messages: text content blocks must contain non-whitespace text"
        if block.get("type") in _THOUGHTS and "cache_control" in block:
            yield f"messages.{at}.content.{place}: thinking blocks cannot be marked with cache_control"
        if block.get("type") == "thinking" and block.get("signature") != signed(block.get("thinking", "")):
            yield f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block"


def _of_pairs(contents: Sequence[Content]) -> Iterator[str]:
    seen: set[str] = set()
    for at, content in enumerate(contents):
        calls = [block.get("id", "") for block in content if block.get("type") == "tool_use"]
        if len({*calls} - seen) < len(calls):
            yield f"messages.{at}: `tool_use` ids must be unique"
        seen.update(calls)
        following: Content = contents[at + 1] if at + 1 < len(contents) else []
        results = [block.get("tool_use_id", "") for block in following if block.get("type") == "tool_result"]
        if lacking := [id for id in calls if id not in results]:
            said = "`tool_use` ids were found without `tool_result` blocks immediately after"
            yield f"messages.{at}: {said}: {lacking[0]}"
        if strange := [id for id in results if id not in calls]:
            yield f"messages.{at + 1}: unexpected `tool_use_id` found in `tool_result` blocks: {strange[0]}"


def _of_thinking(body: Json, contents: Sequence[Content]) -> Iterator[str]:
    thinking: Json = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    budget = thinking.get("budget_tokens", 0)
    if budget < 1024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    if budget >= body.get("max_tokens", 0):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    if len(contents) > 1 and any(block.get("type") == "tool_result" for block in contents[-1]):
        kind = contents[-2][0].get("type") if contents[-2] else ""
        if kind not in _THOUGHTS:
            place = f"messages.{len(contents) - 2}.content.0.type"
            yield f"{place}: Expected `thinking` or `redacted_thinking`, but found `{kind}`"
