"""The lines of a source, and where what the parser calls a block's content lies in them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

_HASHES = re.compile(r"#{1,6}[ \t]*")
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a content came from: its line j begins at content offset `inside[j]` and source offset `outside[j]`.

    A place that is not `exact` knows only that the content lies somewhere between `start` and `end`.
    """

    start: int
    end: int
    inside: tuple[int, ...] = (0,)
    outside: tuple[int, ...] = (0,)
    exact: bool = True

    def at(self, offset: int) -> int:
        """Return the offset in the lines' text of an offset in the content."""
        line = bisect_right(self.inside, offset) - 1
        return min(self.outside[line] + offset - self.inside[line], self.end)


class Lines:
    """A source as the parser sees it, with `\\n` for every end of a line, and the way back to its own offsets."""

    def __init__(self, source: str) -> None:
        self.text = source
        self._shifts: list[int] = []
        if "\r\n" in source:
            halves = source.split("\r\n")
            self._shifts = [end + index for index, end in enumerate(accumulate(len(each) for each in halves[:-1]))]
            self.text = "\n".join(halves)
        self.text = self.text.replace("\r", "\n").replace("\0", "\ufffd")
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        if self._starts[-1] != len(self.text):
            self._starts.append(len(self.text))

    def offset(self, at: int) -> int:
        """Return the source's offset of one in `text`."""
        return at + bisect_left(self._shifts, at) if self._shifts else at

    def start(self, line: int) -> int:
        """Return where a line begins in `text`, for one behind the last where that ends."""
        return self._starts[min(line, len(self._starts) - 1)]

    def line(self, line: int) -> str:
        """Return a line without its end."""
        return self.text[self.start(line) : self.start(line + 1)].removesuffix("\n")

    def paragraph(self, first: int, behind: int, content: str) -> Place:
        """Return the place of the content of lines `first` up to `behind`, of which the parser took margins off."""
        start, end = self.start(first), self.start(behind)
        inside: list[int] = []
        outside: list[int] = []
        at = 0
        for number, part in enumerate(content.split("\n"), first):
            found = self.line(number).rfind(part)
            if found < 0 or number >= behind:
                return Place(start, end, exact=False)
            inside.append(at)
            outside.append(self.start(number) + found)
            at += len(part) + 1
        return Place(start, end, tuple(inside), tuple(outside))

    def heading(self, line: int, content: str) -> Place:
        """Return the place of the content of a heading that begins with `#`."""
        start, end, text = self.start(line), self.start(line + 1), self.line(line)
        hashes = _HASHES.search(text)
        if hashes is None or not text.startswith(content, hashes.end()):
            return Place(start, end, exact=False)
        return Place(start, end, outside=(start + hashes.end(),))

    def cells(self, line: int, contents: list[str]) -> Iterator[Place]:
        """Yield the places of a row's cells."""
        start, text = self.start(line), self.line(line)
        at = 0
        for content in contents:
            exact = text.find(content, at) >= 0
            written = content if exact else content.replace("|", "\\|")
            found = text.find(written, at)
            pipe = _PIPE.search(text, found + len(written) if found >= 0 else at)
            if not at and not content and pipe:  # an empty first cell lies behind the row's first pipe
                pipe = _PIPE.search(text, pipe.end()) or pipe
            end = pipe.end() if pipe else len(text)
            yield Place(start + at, start + end, outside=(start + max(found, at),), exact=exact)
            at = end

    def code(self, first: int, lines: list[str]) -> Iterator[tuple[int, int, bool]]:
        """Yield start, end and whether they are verbatim of lines of code, of which the parser took margins off."""
        for number, part in enumerate(lines, first):
            begin, end = self.start(number), self.start(number + 1)
            verbatim = self.line(number).endswith(part.removesuffix("\n"))
            margin = len(self.line(number)) - len(part.removesuffix("\n")) if verbatim else 0
            yield begin + margin, end, verbatim
