"""The lines `MEDIA:<path>` by which an answer attaches a file, taken out of its text as it streams."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PARTS = re.compile(r"[^\n]*\n|[^\n]+")
_MARK = "MEDIA:"
_MARKER = re.compile(r"[^\S\n]*MEDIA:[^\S\n]*(\S(?:[^\n]*\S)?)[^\S\n]*\n?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A piece of text, or the `path` of a file; `end` characters of the source come up to its end."""

    text: str
    end: int
    path: str = ""


@dataclass
class MediaFold:
    """Takes an answer part by part, and gives back its text and files; a line is held back while it may be a marker.

    A line in a fence is none. `taken` characters were taken so far. However a text is cut into parts, what comes out is
    the same, joined.
    """

    taken: int = 0
    _line: str = ""
    _out: int = 0
    _fence: str = ""

    def take(self, text: str) -> list[Piece]:
        """Take the next part, and return what is sure by now."""
        found: list[Piece] = []
        for part in _PARTS.findall(text):
            for piece in self._part(part):
                if found and not piece.path and not found[-1].path:
                    piece = Piece(text=found.pop().text + piece.text, end=piece.end)
                found.append(piece)
        return found

    def flush(self) -> list[Piece]:
        """Return what was held back, as the text has ended."""
        return self._release(whole=True) if self._line else []

    def _part(self, part: str) -> list[Piece]:
        self._line += part
        self.taken += len(part)
        whole = part.endswith("\n")
        return self._release(whole=whole) if whole or not self._may_mark() else []

    def _may_mark(self) -> bool:
        return not self._out and not self._fence and _MARK.startswith(self._line.lstrip()[: len(_MARK)])

    def _release(self, *, whole: bool) -> list[Piece]:
        line, text = self._line, self._line[self._out :]
        marker = None if self._out or self._fence or not whole else _MARKER.fullmatch(line)
        self._out = len(line)
        if whole:
            self._end_line(line)
        if marker is not None:
            return [Piece(text="", path=marker[1], end=self.taken)]
        return [Piece(text=text, end=self.taken)] if text else []

    def _end_line(self, line: str) -> None:
        self._line, self._out = "", 0
        fence = _FENCE.match(line)
        if not self._fence:
            self._fence = fence[1] if fence else ""
        elif fence and fence[1].startswith(self._fence) and not line[fence.end() :].strip():
            self._fence = ""


def take_media(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a whole text without its markers, and the paths of their files in order."""
    fold = MediaFold()
    pieces = [*fold.take(text), *fold.flush()]
    return "".join(piece.text for piece in pieces), tuple(piece.path for piece in pieces if piece.path)
