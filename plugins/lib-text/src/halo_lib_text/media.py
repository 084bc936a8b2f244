"""The line `MEDIA:<path>` by which an answer attaches a file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .model import Fence, Node, children_of
from .parse import parse

_MARKER = re.compile(r"^[^\S\n]*MEDIA:[^\S\n]*(\S(?:[^\n]*\S)?)[^\S\n]*(?:\n|\Z)", re.MULTILINE)

_END = "\r\n"
_ENDS = re.compile(r"\r*\n")


def take_media(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without its lines `MEDIA:<path>`, and their paths in order.

    A line in a fence is no marker. Where a marker was, two ends of lines remain of three or more, at the beginning and
    end of the text none. A text without markers is returned as it is.
    """
    markers = list(_markers(text)) if "MEDIA:" in text else []
    if not markers:
        return text, ()
    at = 0
    parts: list[str] = []
    for marker in markers:
        parts.append(text[at : marker.start()])
        at = marker.end()
    parts.append(text[at:])
    return _joined(parts), tuple(marker[1] for marker in markers)


def _markers(text: str) -> Iterator[re.Match[str]]:
    fences = _fences(parse(text))
    fence = next(fences, None)
    for marker in _MARKER.finditer(text):
        while fence and fence.end <= marker.start():
            fence = next(fences, None)
        if fence is None or marker.start() < fence.start:
            yield marker


def _fences(node: Node) -> Iterator[Fence]:
    for child in children_of(node):
        if isinstance(child, Fence):
            yield child
        else:
            yield from _fences(child)


def _joined(parts: list[str]) -> str:
    """Join what lies around markers by as many ends of lines as there were, two at most."""
    joined = [""]
    for part in parts:
        head, body = joined[-1].rstrip(_END), part.lstrip(_END)
        ends = joined[-1][len(head) :] + part[: len(part) - len(body)]
        joined[-1] = head
        joined.append("".join(_ENDS.findall(ends)[:2]) + body)
    return "".join(joined).strip(_END)
