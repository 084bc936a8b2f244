"""What chat completions refuse, in words like the real servers': a server that took everything would prove nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES = ("system", "developer", "user", "assistant", "tool")


def complaint(body: Json) -> str:
    """Return the first thing that is wrong with a request, '' if nothing is."""
    return next(_complaints(body), "")


def _complaints(body: Json) -> Iterator[str]:
    messages: Sequence[Json] = body.get("messages") or []
    if not messages:
        yield "[] is too short - 'messages'"
    wanted: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if role not in _ROLES:
            yield f"Invalid value for messages[{at}].role: {role!r}"
        if role == "tool":
            call = message.get("tool_call_id", "")
            if call not in wanted:
                yield f"messages[{at}]: messages with role 'tool' must be a response to a preceding 'tool_calls'"
            wanted = [each for each in wanted if each != call]
        elif wanted:
            yield f"messages[{at}]: 'tool_call_ids' did not have response messages: {wanted[0]}"
        wanted += _calls(message)
        yield from _of_content(at, message)
    if wanted:
        yield f"'tool_call_ids' did not have response messages: {wanted[0]}"
    yield from _of_calls(messages)


def _calls(message: Json) -> list[str]:
    calls: Sequence[Json] = message.get("tool_calls") or []
    return [call.get("id", "") for call in calls]


def _of_content(at: int, message: Json) -> Iterator[str]:
    content: str | Sequence[Json] = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    if message.get("role") in ("user", "assistant") and not message.get("tool_calls") and not text.strip():
        yield f"messages[{at}].content: must not be empty"


def _of_calls(messages: Sequence[Json]) -> Iterator[str]:
    seen: set[str] = set()
    for at, message in enumerate(messages):
        for call in message.get("tool_calls") or []:
            if not call.get("id") or call["id"] in seen:
                yield f"messages[{at}]: tool call ids must be there and unique"
            seen.add(call.get("id", ""))
            name = call.get("function", {}).get("name", "")
            if not _NAME.fullmatch(name):
                yield f"messages[{at}]: Invalid function name {name!r}"
