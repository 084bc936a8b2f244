"""Text in files: what is binary, which lines to show, and a literal edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from .errors import NoEdit

SNIFFED = 512
"""A NUL in this many first bytes makes a file binary."""

BOM = b"\xef\xbb\xbf"
_PIECE = 1 << 16


def looks_binary(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is binary."""
    return b"\0" in head[:SNIFFED]


@dataclass(frozen=True)
class Window:
    """Lines `first` (from 1) and on, without their ends, out of `total` in the file."""

    first: int
    lines: tuple[str, ...]
    total: int

    @property
    def left(self) -> int:
        """How many lines come after."""
        return max(0, self.total - (self.first - 1) - len(self.lines))


def window(
    file: BinaryIO, *, first: int = 1, limit: int = 2000, chars: int = 1 << 30, margin: int = 1, width: int = 2000
) -> Window:
    """Read at most `limit` lines from `first` on, as long as they have at most `chars` characters together.

    Each line counts `margin` characters beside its own. At least one line is returned if there is one. A line longer
    than `width` characters is cut and says so. Bytes that are not UTF-8 become U+FFFD. The whole file is read once, a
    piece at a time.
    """
    lines: list[str] = []
    number, used = 0, 0
    while raw := file.readline(_PIECE):
        number += 1
        if number == 1:
            raw = raw.removeprefix(BOM)
        size, end = len(raw), raw[-1:]
        while end != b"\n" and (more := file.readline(_PIECE)):
            size, end = size + len(more), more[-1:]
        if number < first or len(lines) >= limit or used > chars:
            continue
        line = _show(raw, size, width)
        used += len(line) + margin
        if not lines or used <= chars:
            lines.append(line)
    return Window(first, tuple(lines), number)


def _show(raw: bytes, size: int, width: int) -> str:
    line = raw.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    if len(line) <= width and size == len(raw):
        return line
    return f"{line[:width]} [line cut: {size} bytes]"


def replace_literal(text: str, old: str, new: str, *, every: bool = False) -> str:
    """Put `new` in place of `old`, both taken literally; where all lines end in CRLF, theirs do too.

    Raises `NoEdit` when `old` is empty, missing, equal to `new`, or there more than once without `every`.
    """
    if not old:
        raise NoEdit("the text to replace is empty.")
    if old == new:
        raise NoEdit("the text to replace and its replacement are the same.")
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        old, new = _with_crlf(old), _with_crlf(new)
    count = text.count(old)
    if count == 0:
        raise NoEdit("the text to replace was not found; it must match exactly, spaces and line ends included.")
    if count > 1 and not every:
        raise NoEdit(f"the text to replace was found {count} times; give more of its surroundings, or replace all.")
    return text.replace(old, new)


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
