"""What a text is about, as far as its own first sentences, headings and names tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.+?)\s*#*\s*")
_UNDERLINE = re.compile(r"\s{0,3}(=+|-{2,})\s*")
_RULE = re.compile(r"[\s\-=*_#~+|:<>/]*")
_COMMENT = re.compile(r"^\s*(?:#!?|//+|--|;+|/\*+|\*+/?|<!--|\"\"\"|'''|%+)\s?")
_COMMENT_END = re.compile(r"\s*(?:\*/|-->|\"\"\"|''')\s*$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_DEFINITION = re.compile(
    r"\s{0,4}(?:export\s+)?(?:default\s+)?(?:public\s+|private\s+|static\s+|async\s+|pub\s+)*"
    r"(?:def|class|function|func|fn|struct|enum|interface|trait|type|module|impl)\s+([A-Za-z_]\w*)"
)
_INLINE = (
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"</?[A-Za-z][^>]*>"), ""),
    (re.compile(r"(\*\*|__)(.+?)\1"), r"\2"),
)
_MARKDOWN = (".md", ".markdown", ".mdx", ".rst", ".txt", "")
_CODE = (
    ".py",
    ".js",
    ".ts",
    ".tsx",
    ".jsx",
    ".go",
    ".rs",
    ".java",
    ".c",
    ".h",
    ".cpp",
    ".rb",
    ".php",
    ".cs",
    ".kt",
    ".swift",
)
_LONGEST_OPENING = 320


@dataclass(frozen=True)
class Extract:
    """The facts of one text: its title, opening sentences, further headings, and names that it defines or holds."""

    title: str = ""
    opening: str = ""
    headings: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def extract(path: str, lines: Sequence[str]) -> Extract:
    """Take the facts out of a file's lines; `path` tells what kind of file it is."""
    suffix = _suffix(path)
    body = tuple(_without_front_matter(lines))
    if suffix == ".json":
        return Extract(names=_keys(body), opening="" if _keys(body) else _opening(body))
    if suffix in (".csv", ".tsv"):
        return Extract(names=_columns(body, "\t" if suffix == ".tsv" else ","))
    if suffix in _CODE:
        names = tuple(match[1] for line in body if (match := _DEFINITION.match(line)))
        plain = [_COMMENT_END.sub("", _COMMENT.sub("", line)) for line in body]
        return Extract(opening=_opening(plain), names=_unique(names))
    headings = tuple(_headings(body)) if suffix in _MARKDOWN else ()
    return Extract(headings[0] if headings else "", _opening(_prose(body)), headings[1:])


def clean(text: str) -> str:
    """Return one line of markdown as plain text."""
    for pattern, plain in _INLINE:
        text = pattern.sub(plain, text)
    return text.strip()


def _suffix(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return "." + name.rsplit(".", 1)[1].lower() if "." in name.lstrip(".") else ""


def _without_front_matter(lines: Sequence[str]) -> Sequence[str]:
    if not lines or lines[0].strip() != "---":
        return lines
    end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    return lines[end + 1 :] if end else lines


def _outside_fences(lines: Sequence[str]) -> Iterator[str]:
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
            yield ""
        elif mark:
            fence = mark[1]
            yield ""
        else:
            yield line


def _headings(lines: Sequence[str]) -> Iterator[str]:
    before = ""
    for line in _outside_fences(lines):
        if match := _HEADING.fullmatch(line):
            yield clean(match[1])
        elif _UNDERLINE.fullmatch(line) and before and not _HEADING.fullmatch(before):
            yield clean(before)
        before = line.strip()


def _prose(lines: Sequence[str]) -> list[str]:
    """Return the lines outside headings and fences; if there is nothing else, all of them."""
    kept: list[str] = []
    for line in _outside_fences(lines):
        if _UNDERLINE.fullmatch(line) and kept and kept[-1]:
            kept[-1] = ""
        kept.append("" if _HEADING.fullmatch(line) or _UNDERLINE.fullmatch(line) else line)
    return kept


def _opening(lines: Sequence[str]) -> str:
    """Return the first paragraph's first sentences."""
    paragraph: list[str] = []
    for line in lines:
        text = clean(line.removeprefix("> "))
        if not text or _RULE.fullmatch(text):
            if paragraph:
                break
            continue
        paragraph.append(text)
    return _sentences(" ".join(paragraph))


def _sentences(text: str) -> str:
    kept = ""
    for sentence in _SENTENCE.split(text):
        if kept and len(kept) + len(sentence) > _LONGEST_OPENING:
            break
        kept = f"{kept} {sentence}".strip() if kept[-1:].isascii() else kept + sentence
    return kept if len(kept) <= _LONGEST_OPENING else kept[: _LONGEST_OPENING - 1].rstrip() + "…"


def _keys(lines: Sequence[str]) -> tuple[str, ...]:
    try:
        value: object = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return ()
    return tuple(str(key) for key in value) if isinstance(value, dict) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _columns(lines: Sequence[str], comma: str) -> tuple[str, ...]:
    first = next((line for line in lines if line.strip()), "")
    return tuple(part.strip().strip('"') for part in first.split(comma) if part.strip())


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
