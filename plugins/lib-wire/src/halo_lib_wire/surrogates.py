"""Text without lone surrogates, which no UTF-8 can hold; some servers split a character between two deltas."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")
_HIGH = re.compile("[\ud800-\udbff]\\Z")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def sound(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if not _LONE.search(text):
        return text
    joined = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _LONE.sub("\ufffd", joined)


class Joiner:
    """Joins surrogate pairs across the pieces of one text."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what of the text so far is whole; a high surrogate at the end waits for the next piece."""
        piece = self._held + piece
        self._held = piece[-1] if _HIGH.search(piece) else ""
        return sound(piece[: len(piece) - len(self._held)])

    def close(self) -> str:
        """Return what was still held."""
        held, self._held = self._held, ""
        return sound(held)
