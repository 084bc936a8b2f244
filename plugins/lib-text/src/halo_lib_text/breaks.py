"""Where a text may be cut, and how good each of these places is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from .letters import CJK, boundaries, is_boundary, sentences, words
from .model import Block, Break, Cell, Document, Fence, Heading, List, Node, Quote, Table, Text, children_of

BLOCK, LINE, SENTENCE = 0, 1, 2
_WORD, _ELEMENT, _LETTER = 3, 4, 5  # these three again for each span that lies around a place
_DEPTH = 3
INSIDE = _WORD + _DEPTH  # from here on up places lie in a span, link or code of a line


class Breaks:
    """Every place where a text may be cut, in order, each with a rank: the smaller, the better."""

    def __init__(self, source: str, document: Document, step: int) -> None:
        self._source = source
        self._step = step  # between places in the middle of a word
        self._ranks: dict[int, int] = {}
        self._add(len(source), BLOCK)
        self._blocks(document.children, BLOCK)
        self.offsets = sorted(self._ranks)
        self.ranks = [self._ranks[each] for each in self.offsets]

    def outside(self, start: int) -> int:
        """Return the first place behind `start` that lies in no span, link or code of a line."""
        index = bisect_left(self.offsets, start + 1)
        while self.ranks[index] >= INSIDE:
            index += 1
        return self.offsets[index]

    def _add(self, offset: int, rank: int) -> None:
        if offset > 0 and (rank <= LINE or is_boundary(self._source, offset)):
            self._ranks[offset] = min(rank, self._ranks.get(offset, rank))

    def _blocks(self, blocks: Sequence[Block], rank: int) -> None:
        for before, after in pairwise(blocks):
            for offset in (before.end, after.start):
                self._add(offset, LINE if isinstance(before, Heading) else rank)
        for block in blocks:
            self._block(block)

    def _block(self, block: Block) -> None:
        match block:
            case Quote():
                self._blocks(block.children, LINE)
            case List():
                for item in block.children:
                    self._add(item.start, LINE)
                    self._blocks(item.children, LINE)
            case Table():
                for number, row in enumerate(block.children):
                    self._add(row.start, SENTENCE if number == 1 else LINE)  # a header stays with a row
                    self._cells(row.children)
            case Fence():
                for number, line in enumerate(block.children):
                    if number:  # what opens a fence stays with a line
                        self._add(line.start, LINE)
                    self._text(line, 0)
            case _:
                self._inlines(children_of(block), 0)

    def _cells(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            self._add(cell.start, SENTENCE)
            self._inlines(cell.children, 0)

    def _inlines(self, inlines: Sequence[Node], depth: int) -> None:
        for before, after in pairwise(inlines):
            if isinstance(before, Break):
                line = self._source.find("\n", before.start, after.start) + 1 or after.start
                self._add(line, LINE if not depth else _WORD + _DEPTH * depth)
            else:
                self._add(after.start, (_WORD if self._parts_words(after.start) else _ELEMENT) + _DEPTH * depth)
        if inlines and not depth:
            self._add(inlines[-1].end, _ELEMENT)
        for inline in inlines:
            if isinstance(inline, Text):
                self._text(inline, depth)
            else:
                self._inlines(children_of(inline), depth + 1)

    def _parts_words(self, at: int) -> bool:
        before = self._source[at - 1]
        return before.isspace() or CJK.match(before) is not None

    def _text(self, text: Text, depth: int) -> None:
        """Add the places inside of a text."""
        if not text.verbatim:
            return
        deeper = _DEPTH * depth
        start, end = text.start, text.start + len(text.text)
        for offset in boundaries(self._source, start, end, self._step):
            self._add(offset, _LETTER + deeper)
        for offset in words(self._source, start, end):
            self._add(offset, _WORD + deeper)
        if not depth:
            for offset in sentences(self._source, start, end):
                self._add(offset, SENTENCE)
