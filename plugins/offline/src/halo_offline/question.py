"""The question that a request is about, found in its messages."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halo_kernel import Message, Text, ToolCall, ToolResult

from .results import Result, read_result

_STAMP = re.compile(r"^\[\d{4}-\d{2}-\d{2}T[\d:.]+Z\] ?", re.MULTILINE)
_SENDER = re.compile(r"^\(from: session [^\n]*\)\s*", re.MULTILINE)
_ATTACHED = re.compile(r'<file path="([^"]*)">.*?</file>', re.DOTALL)
_NOTICE = re.compile(r"^\[System\b[^\]\n]*\](?:(?!\n\n).)*", re.MULTILINE | re.DOTALL)
_LONGEST = 4_000

Key = tuple[str, str]


@dataclass(frozen=True)
class Question:
    """What was asked last, what the tools have answered since, and what the conversation was about before.

    `calls` counts all calls of the conversation, so that a new one gets an id of its own.
    """

    text: str
    results: Mapping[Key, Result]
    last_file: str | None
    calls: int


def key_of(tool: str, arguments: Mapping[str, object]) -> Key:
    """Return what makes two calls the same call."""
    return tool, json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def plain(text: str) -> str:
    """Return what the person wrote: no arrival stamps, no sender lines, attached files as their quoted names."""
    named = _ATTACHED.sub(lambda match: f"`{html.unescape(match[1])}`", text)
    return _SENDER.sub("", _STAMP.sub("", named)).strip()


def find_question(messages: Sequence[Message]) -> Question:
    """Find the last question and its results; a notice of the system asks for the question before it once more."""
    asked = [(at, text) for at, message in enumerate(messages) if (text := _asked(message))]
    start = asked[-1][0] if asked else -1
    calls = [block for message in messages for block in message.content if isinstance(block, ToolCall)]
    return Question(
        text=_standing([text for _, text in asked])[:_LONGEST],
        results=_results(messages[start + 1 :]),
        last_file=_last_file(messages[: start + 1]),
        calls=len(calls),
    )


def _standing(asked: Sequence[str]) -> str:
    """Return what is to be answered: the last text, and those before it as far as notices reach back."""
    parts: list[str] = []
    for text in reversed(asked):
        rest = _NOTICE.sub("", text).strip()
        parts.insert(0, rest)
        if not _NOTICE.search(text):
            break
    return "\n".join(filter(None, parts))


def _asked(message: Message) -> str:
    if message.role != "user":
        return ""
    return plain("\n\n".join(block.text for block in message.content if isinstance(block, Text)))


def _results(messages: Sequence[Message]) -> dict[Key, Result]:
    calls: dict[str, Key] = {}
    found: dict[Key, Result] = {}
    for block in (block for message in messages for block in message.content):
        if isinstance(block, ToolCall):
            calls[block.id] = key_of(block.name, block.arguments)
        elif isinstance(block, ToolResult) and block.call in calls:
            found[calls[block.call]] = read_result(block.text, error=block.error)
    return found


def _last_file(messages: Sequence[Message]) -> str | None:
    read = [
        block.arguments.get("path")
        for message in messages
        for block in message.content
        if isinstance(block, ToolCall) and block.name == "file_read"
    ]
    return next((path for path in reversed(read) if isinstance(path, str)), None)
