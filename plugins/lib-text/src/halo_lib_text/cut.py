"""Cuts a piece out of a document: what is cut through is closed in one piece and opened again in the next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeVar

from .model import Break, Cell, Document, Heading, Item, Node, Paragraph, Row, Table, Text, children_of

_START, _END = attrgetter("start"), attrgetter("end")
_Node = TypeVar("_Node", bound=Node)


def within(document: Document, start: int, end: int) -> Document:
    """Return the part of a document that came from `source[start:end]`, in time in proportion to that part.

    Fences keep their language, items their numbers, tables their columns, links their address. Nothing is repeated.
    """
    return Document(start, end, _cut_all(document.children, start, end))


def _cut_all(nodes: Sequence[_Node], start: int, end: int) -> tuple[_Node, ...]:
    first = bisect_right(nodes, start, key=_END)
    behind = bisect_left(nodes, end, lo=first, key=_START)
    cut = (_cut(node, start, end) for node in nodes[first:behind])
    return tuple(node for node in cut if node is not None)


def _cut(node: _Node, start: int, end: int) -> _Node | None:
    if start <= node.start and node.end <= end:
        return node
    if isinstance(node, Text) and node.verbatim:
        text = node.text[max(start - node.start, 0) : end - node.start]
        return replace(node, start=max(start, node.start), end=min(end, node.end), text=text)
    if isinstance(node, Row):  # a column that is in another piece is empty in this one
        cells = tuple(_cut(cell, start, end) or replace(cell, children=()) for cell in node.children)
        return replace(node, children=cells)
    if not hasattr(node, "children"):
        return node if start <= node.start else None
    return _cut_parent(node, children_of(node), start, end)


def _cut_parent(node: _Node, whole: Sequence[Node], start: int, end: int) -> _Node | None:
    children = _cut_all(whole, start, end)
    if isinstance(node, Paragraph | Heading | Cell):
        children = _trimmed(children)
    if not children:
        return None
    changes: dict[str, Any] = {"children": children}
    if isinstance(node, Item):
        changes["resumed"] = node.resumed or start > node.start
    if isinstance(node, Table):
        changes["headed"] = node.headed and children[0] is whole[0]
    return replace(node, start=max(start, node.start), end=min(end, node.end), **changes)


def _trimmed(children: tuple[Node, ...]) -> tuple[Node, ...]:
    """Leave out the ends of lines at which a paragraph was cut."""
    first, behind = 0, len(children)
    while first < behind and isinstance(children[first], Break):
        first += 1
    while behind > first and isinstance(children[behind - 1], Break):
        behind -= 1
    return children[first:behind]
