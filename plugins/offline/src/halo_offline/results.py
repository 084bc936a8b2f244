"""What the file tools answered, read back from their text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBERED = re.compile(r" *(\d+)\t(.*)", re.DOTALL)
_MORE = re.compile(r"\.\.\. (\d+) more line")
_PAST_END = re.compile(r"\(empty: file has (\d+) lines?")
_HIT = re.compile(r"(.+?):(\d+):(.*)", re.DOTALL)
_ICONS = {"📁": True, "📄": False}
_CUT = re.compile(r"\[Content truncated: \d+ chars total[^\n]*\s*$")
_MARKERS = ("__TOOL_ERROR__", "__TOOL_WARN__")


@dataclass(frozen=True)
class Result:
    """A tool's answer without its marker line; `failed` when it is the reason why there is none."""

    text: str
    failed: bool = False


@dataclass(frozen=True)
class Entry:
    """One line of a listing."""

    name: str
    folder: bool


@dataclass(frozen=True)
class Listing:
    """A folder's entries in the tool's order; `cut` when there are more than the tool showed."""

    entries: tuple[Entry, ...]
    cut: bool = False


@dataclass(frozen=True)
class Page:
    """Lines of a file from its first; `total` counts all of them, None when the answer was cut before it said."""

    lines: tuple[str, ...]
    total: int | None


@dataclass(frozen=True)
class Hit:
    """One line that a search found."""

    path: str
    line: int
    text: str


def read_result(text: str, *, error: bool) -> Result:
    """Take the marker off a tool's answer."""
    first, _, rest = text.partition("\n")
    marked = first.strip() in _MARKERS
    return Result(rest if marked else text, error or marked)


def read_listing(text: str) -> Listing:
    """Read what `file_list` answered: a line an entry, with an icon for its kind."""
    entries: list[Entry] = []
    for line in text.split("\n"):
        stripped = line.lstrip(" ")
        folder = _ICONS.get(stripped[:1])
        if folder is not None:
            name = stripped[1:].removeprefix(" ")
            entries.append(Entry(name.removesuffix("/") if folder else name, folder))
    return Listing(tuple(entries), "[truncated]" in text or _CUT.search(text) is not None)


def read_page(text: str) -> Page:
    """Read what `file_read` answered: a line number, a tab and the text, then how many lines are left."""
    lines: list[str] = []
    last, more = 0, 0
    cut = _CUT.search(text)
    for line in text[: cut.start() if cut else None].split("\n"):
        if numbered := _NUMBERED.fullmatch(line):
            last, content = int(numbered[1]), numbered[2]
            lines.append(content)
        elif left := _MORE.match(line):
            more = int(left[1])
        elif past := _PAST_END.match(line):
            last = int(past[1])
    return Page(tuple(lines), None if cut else last + more)


def read_hits(text: str) -> tuple[Hit, ...]:
    """Read what `grep` answered: file, line and content, separated by colons."""
    matches = (_HIT.fullmatch(line) for line in text.split("\n"))
    return tuple(Hit(match[1], int(match[2]), match[3]) for match in matches if match)


def read_paths(text: str) -> tuple[str, ...]:
    """Read what `glob` answered: a path a line."""
    notes = ("No files found", "[truncated")
    return tuple(line for line in _CUT.sub("", text).split("\n") if line.strip() and not line.startswith(notes))
