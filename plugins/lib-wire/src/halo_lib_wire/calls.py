"""Tool calls put together from the fragments of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from halo_kernel import MALFORMED, ToolCall

from .surrogates import sound


@dataclass
class _Part:
    index: int | None
    id: str
    name: str
    arguments: str = ""


class CallParts:
    """The calls of one answer. `new_id` makes an id where the server gave none, or the same one twice."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._parts: list[_Part] = []

    def add(self, *, index: int | None, id: str, name: str, arguments: str) -> None:
        """Take one fragment; anything but `arguments` may be missing.

        Servers exist that give every parallel call the index 0 (Ollama), no index at all (Gemini's proxy), or repeat
        id and name in every fragment. So a fragment begins a call when its index is new, or when it carries a name and
        an id that is not the current call's, or, without any index, a name and no id.
        """
        part = self._current(index)
        if part is None or self._begins(part, index, id, name):
            self._parts.append(_Part(index, id, name, arguments))
            return
        part.id = part.id or id
        part.name = part.name or name
        part.arguments += arguments

    def _current(self, index: int | None) -> _Part | None:
        candidates = self._parts if index is None else [part for part in self._parts if part.index == index]
        return candidates[-1] if candidates else None

    @staticmethod
    def _begins(part: _Part, index: int | None, id: str, name: str) -> bool:
        if not name or not part.name:
            return False
        return id != part.id if id and part.id else index is None and not id

    def close(self) -> list[ToolCall]:
        """Return the whole calls in the order in which they began, without nameless ones, which nothing can run."""
        calls: list[ToolCall] = []
        used: set[str] = set()
        for part in self._parts:
            if not part.name:
                continue
            id = sound(part.id)
            id = id if id and id not in used else self._new_id()
            used.add(id)
            calls.append(ToolCall(id, sound(part.name), parse_arguments(part.arguments)))
        return calls


def parse_arguments(text: str) -> dict[str, object]:
    """Return the arguments that a model wrote.

    Nothing, and `null`, are no arguments; raw line breaks in strings and an object that was encoded twice are
    understood. Anything else that is no JSON object keeps its text: `{MALFORMED: text}`, which the kernel answers with
    an error, so that the model sees its mistake and no tool runs with arguments nobody meant.
    """
    value = _decoded(text)
    if isinstance(value, str):
        value = _decoded(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        return {MALFORMED: sound(text)}
    return cast("dict[str, object]", value)


def _decoded(text: str) -> object:
    """Return the JSON value in `text`, None for a blank one, False for what is no JSON."""
    if not text.strip():
        return None
    try:
        return _sound_value(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return False


def _sound_value(value: object) -> object:
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, list):
        return [_sound_value(each) for each in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {sound(key): _sound_value(each) for key, each in cast("Mapping[str, object]", value).items()}
    return value
