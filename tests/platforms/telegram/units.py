"""Counting as the platform counts: offsets and lengths in UTF-16 units, places of errors in bytes of UTF-8."""

from __future__ import annotations

from typing import Any

Entity = dict[str, Any]


def length(text: str) -> int:
    """Return how many UTF-16 units a text has."""
    return len(text) + sum(char > "\uffff" for char in text)


def bytes_before(text: str, place: int) -> int:
    """Return how many bytes of UTF-8 come before a place."""
    return len(text[:place].encode(errors="surrogatepass"))


def cut(text: str, offset: int, size: int) -> str:
    """Return the part of a text that an entity covers."""
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + size)].decode("utf-16-le", errors="replace")
