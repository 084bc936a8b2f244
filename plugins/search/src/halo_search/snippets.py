"""A piece of a text around what was looked for, with that marked."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from .cutter import cut
from .query import Query

_BEFORE, _LENGTH = 60, 200


class Piece(Struct, frozen=True):
    """A part of a snippet; `hit` is what was looked for."""

    text: str
    hit: bool


def snippet(text: str, query: Query) -> Sequence[Piece]:
    """Return about 200 characters of a text from its first hit on, in pieces; nothing when not all is there."""
    items = cut(text)
    found = [list(phrase.spans(items)) for phrase in query.wanted]
    if not all(found) or any(any(phrase.spans(items)) for phrase in query.unwanted):
        return ()
    spans = _joined(sorted(span for each in found for span in each))
    begin = max(0, spans[0][0] - _BEFORE)
    end = max(spans[0][1], min(len(text), begin + _LENGTH))
    pieces = [Piece("…", False)] if begin else []
    at = begin
    for start, stop in spans:
        if stop > end:
            break
        pieces += [Piece(text[at:start], False), Piece(text[start:stop], True)]
        at = stop
    pieces += [Piece(text[at:end], False), *([Piece("…", False)] if end < len(text) else [])]
    return [piece for piece in pieces if piece.text]


def _joined(spans: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Return spans in order, those that overlap or touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
