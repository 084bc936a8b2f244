"""What chat completions refuse, in words like the real servers': a server that took everything would prove nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
Messages = Sequence[Json]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES = ("system", "developer", "user", "assistant", "tool")


def complaint(body: Json) -> str:
    """Return the first thing that is wrong with a request, '' if nothing is."""
    messages: Messages = body.get("messages") or []
    return next(_complaints(messages), "")


def _complaints(messages: Messages) -> Iterator[str]:
    if not messages:
        yield "[] is too short - 'messages'"
    for at, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            yield f"Invalid value for messages[{at}].role: {message.get('role')!r}"
        if message.get("role") in ("user", "assistant") and not _text(message).strip() and not _calls(message):
            yield f"messages[{at}].content: must not be empty"
        yield from _of_names(at, message)
    yield from _of_pairs(messages)


def _text(message: Json) -> str:
    content: str | Messages = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", part.get("type", "")) for part in content)


def _calls(message: Json) -> Messages:
    return message.get("tool_calls") or []


def _of_names(at: int, message: Json) -> Iterator[str]:
    for call in _calls(message):
        function: Json = call.get("function") or {}
        if not _NAME.fullmatch(function.get("name", "")):
            yield f"Invalid 'messages[{at}].tool_calls.function.name': it must match ^[a-zA-Z0-9_-]+$"


def _of_pairs(messages: Messages) -> Iterator[str]:
    """Each call has one answer, before anything else is said."""
    open_calls: list[str] = []
    for at, message in enumerate([*messages, {"role": "end"}]):
        call: str = message.get("tool_call_id", "")
        if message.get("role") == "tool" and call in open_calls:
            open_calls.remove(call)
        elif message.get("role") == "tool":
            yield f"messages[{at}]: messages with role 'tool' must be a response to a preceding 'tool_calls'"
        elif open_calls:
            yield f"messages[{at}]: these tool_call_ids did not have response messages: {', '.join(open_calls)}"
        open_calls += [each.get("id", "") for each in _calls(message)]
        if len({*open_calls}) < len(open_calls):
            yield f"messages[{at}]: the ids of tool_calls must be unique"
