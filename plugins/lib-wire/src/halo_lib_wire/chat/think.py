"""Reasoning that a local server leaves in the text, between `<think>` tags."""

from __future__ import annotations

from typing import Literal

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """Splits an answer that begins with `<think>…</think>` into reasoning and text, however it is cut."""

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "after", "text"] = "start"
        self._held = ""

    def feed(self, piece: str) -> tuple[str, str]:
        """Return (reasoning, text) of what is decided by now."""
        self._held += piece
        thought = ""
        if self._state == "start":
            self._begin()
        if self._state == "thinking":
            thought = self._think()
        if self._state == "after":
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "after"
        return thought, self._take() if self._state == "text" else ""

    def close(self) -> tuple[str, str]:
        """Return (reasoning, text) of what was held back."""
        held = self._take()
        return (held, "") if self._state == "thinking" else ("", held)

    def _begin(self) -> None:
        begun = self._held.lstrip()
        if begun.startswith(_OPEN):
            self._state, self._held = "thinking", begun.removeprefix(_OPEN).lstrip()
        elif not _OPEN.startswith(begun):
            self._state = "text"

    def _think(self) -> str:
        thought, closed, rest = self._held.partition(_CLOSE)
        if closed:
            self._state, self._held = "after", rest
            return thought.rstrip()
        kept = next((size for size in range(len(_CLOSE) - 1, 0, -1) if self._held.endswith(_CLOSE[:size])), 0)
        thought = self._held[: len(self._held) - kept]
        self._held = self._held[len(thought) :]
        return thought

    def _take(self) -> str:
        held, self._held = self._held, ""
        return held
