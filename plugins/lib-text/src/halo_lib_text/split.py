"""Cuts a text into pieces that a platform takes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .breaks import INSIDE, SENTENCE, Breaks
from .cut import within
from .letters import boundaries, is_boundary, splits_pair
from .model import Document
from .parse import parse, plain_document

_FILLED = 0.5  # of what would fit; a piece that would be less full is cut at the next lesser place
_STEPS = 64  # places in the middle of a word that are tried, for each piece

Measure = Callable[[str], int]
Render = Callable[[Document], str]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text: `source` is that of the whole from `start` to `end`, `text` what was measured.

    `resumes` and `continues` say that the piece begins or ends inside of a block, a fence for example, which `document`
    closes and opens again. In a `plain` piece nothing is markup, because something was too big to be cut by its rules.
    """

    source: str
    start: int
    end: int
    document: Document
    text: str
    resumes: bool
    continues: bool
    plain: bool


def split(source: str, limit: int, *, measure: Measure = len, render: Render | None = None) -> list[Chunk]:
    """Return pieces whose sources joined are `source`, each of at most `limit` by `measure`.

    Measured is the piece's source, or what `render` makes of its document if that is given. Cut is at the end of a
    block, an item, row or line, a sentence, a word, in that order, as long as pieces become no crumbs; inside a link,
    code span or emphasis only if it alone is too big; never inside an entity, a letter or a surrogate pair. A
    character that alone is over the limit is a piece of its own. Takes time in proportion to the length.

    Raises ValueError if `limit` is below 1.
    """
    if limit < 1:
        raise ValueError("limit: must be at least 1")
    return list(_Splitter(source, limit, measure, render).chunks())


class _Splitter:
    def __init__(self, source: str, limit: int, measure: Measure, render: Render | None) -> None:
        self._source = source
        self._limit = limit
        self._measure = measure
        self._render = render
        self._document = parse(source)
        self._step = max(1, limit // _STEPS)
        self._breaks = Breaks(source, self._document, self._step)

    def chunks(self) -> Iterator[Chunk]:
        start = 0
        while start < len(self._source):
            end = self._end(start)
            if end is None:
                end = self._breaks.outside(start)
                yield from self._plain(start, end)
            else:
                yield self._chunk(start, end, plain=False)
            start = end

    def _chunk(self, start: int, end: int, *, plain: bool) -> Chunk:
        document = self._part(start, end, plain)
        text = self._shown(start, end, document)
        inside = self._inside(start), self._inside(end)
        return Chunk(self._source[start:end], start, end, document, text, *inside, plain)

    def _part(self, start: int, end: int, plain: bool) -> Document:
        return plain_document(self._source, start, end) if plain else within(self._document, start, end)

    def _shown(self, start: int, end: int, document: Document) -> str:
        return self._render(document) if self._render else self._source[start:end]

    def _inside(self, at: int) -> bool:
        blocks = self._document.children
        index = bisect_left(blocks, at, key=lambda block: block.start) - 1
        return index >= 0 and blocks[index].start < at < blocks[index].end

    def _fits(self, start: int, end: int, plain: bool) -> bool:
        if self._render is None:
            return self._measure(self._source[start:end]) <= self._limit
        return self._measure(self._render(self._part(start, end, plain))) <= self._limit

    def _end(self, start: int) -> int | None:
        """Return where the piece that begins at `start` ends best; None if nothing fits."""
        offsets = self._breaks.offsets
        first = bisect_right(offsets, start)
        last = self._furthest(start, offsets, first, plain=False)
        if last < first:
            return None
        for end in self._best(start, first, last):
            if end == offsets[last] or self._fits(start, end, plain=False):
                return end
        return offsets[last]

    def _best(self, start: int, first: int, last: int) -> Iterator[int]:
        """Yield the places to cut at, the best first, of those from `first` to `last`."""
        offsets, ranks = self._breaks.offsets, self._breaks.ranks
        furthest: dict[int, int] = {}
        for index in range(last, first - 1, -1):
            furthest.setdefault(ranks[index], offsets[index])
        end = start
        for rank in sorted(furthest):
            if rank >= INSIDE and end > start:
                yield end
            end = max(end, furthest[rank])
            if rank > SENTENCE or end - start >= _FILLED * (offsets[last] - start):
                yield end

    def _furthest(self, start: int, offsets: Sequence[int], first: int, plain: bool) -> int:
        """Return the index of the last place from `first` on up to which a piece fits; `first - 1` if none does.

        Looks twice as far as what fits at most, so that all pieces together cost time in proportion to the length.
        """
        fitting, reach = first - 1, self._limit
        while True:
            index = min(max(bisect_right(offsets, start + reach) - 1, fitting + 1), len(offsets) - 1)
            if index == fitting:
                return fitting
            if not self._fits(start, offsets[index], plain):
                break
            fitting, reach = index, 2 * max(reach, offsets[index] - start)
        return self._between(start, offsets, fitting, index, plain)

    def _between(self, start: int, offsets: Sequence[int], fitting: int, beyond: int, plain: bool) -> int:
        while beyond - fitting > 1:
            middle = (fitting + beyond) // 2
            if self._fits(start, offsets[middle], plain):
                fitting = middle
            else:
                beyond = middle
        return fitting

    def _plain(self, start: int, behind: int) -> Iterator[Chunk]:
        """Yield pieces without markup of what is too big for its own."""
        offsets = [*boundaries(self._source, start, behind, self._step), behind]
        while start < behind:
            first = bisect_right(offsets, start)
            last = self._furthest(start, offsets, first, plain=True)
            end = offsets[last] if last >= first else self._least(start, offsets[first])
            yield self._chunk(start, end, plain=True)
            start = end

    def _least(self, start: int, behind: int) -> int:
        """Return where a piece ends if a few letters are too many: after whole ones if any fit, else inside of one."""
        inside = [at for at in range(start + 1, behind) if not splits_pair(self._source, at)]
        for offsets in ([at for at in inside if is_boundary(self._source, at)], inside):
            if offsets and (last := self._furthest(start, offsets, 0, plain=True)) >= 0:
                return offsets[last]
        return inside[0] if inside else behind
