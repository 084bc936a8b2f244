"""Reads a markdown text into the model."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from .inlines import Inlines
from .model import (
    Align,
    Block,
    Cell,
    Document,
    Fence,
    Heading,
    Inline,
    Item,
    List,
    Paragraph,
    Quote,
    Row,
    Rule,
    Table,
    Text,
)
from .source import Lines, Place

if TYPE_CHECKING:
    from markdown_it.token import Token

_ALIGNS: dict[object, Align] = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}
_LANGUAGE = re.compile(r"[^\s`{}\"'<>&,]+")
_CODE_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def parse(source: str) -> Document:
    """Return what a text says, whatever it is: there is no text that is no markdown.

    CommonMark with tables, strikethrough and bare addresses. HTML is text, but for `<br>`. Beyond ten lists or eight
    spans in each other markup is text. Takes time in proportion to the length.
    """
    from .tokens import tokenize  # markdown-it is loaded with the first text

    lines = Lines(source)
    try:
        return Document(0, len(source), _Reader(lines, tokenize(lines.text)).blocks())
    except Exception:  # whatever the parser stumbles over, the text has to reach its reader
        return plain_document(source, 0, len(source))


def plain_document(source: str, start: int, end: int) -> Document:
    """Return a piece of a source as if nothing in it were markup."""
    return Document(start, end, (Paragraph(start, end, (Text(start, end, source[start:end]),)),))


class _Reader:
    """Goes once through the parser's tokens, which open and close what they hold."""

    def __init__(self, lines: Lines, tokens: list[Token]) -> None:
        self._lines = lines
        self._tokens = tokens
        self._at = 0

    def _next(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _closes(self) -> bool:
        """Take the next token if it closes what is being read."""
        closes = self._at == len(self._tokens) or self._tokens[self._at].nesting < 0
        self._at += closes
        return closes

    def blocks(self) -> tuple[Block, ...]:
        """Read blocks up to the end of what holds them."""
        blocks: list[Block] = []
        while not self._closes():
            blocks.append(self._block(self._next()))
        return tuple(blocks)

    def _block(self, token: Token) -> Block:
        start, end = self._span(token)
        match token.type:
            case "heading_open":
                return Heading(start, end, self._line(token), int(token.tag[1:]))
            case "blockquote_open":
                return Quote(start, end, self.blocks())
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token)
            case "fence" | "code_block":
                return self._fence(token)
            case "table_open":
                return self._table(token)
            case "hr":
                return Rule(start, end)
            case _:
                return Paragraph(start, end, self._line(token))

    def _line(self, token: Token) -> tuple[Inline, ...]:
        """Read the inlines of a paragraph or heading."""
        inner = self._next()
        self._at += 1  # what closes it
        first, behind = _map(token)
        if token.markup.startswith("#"):
            place = self._lines.heading(first, inner.content)
        else:
            place = self._lines.paragraph(first, behind, inner.content)
        return self._inlines(inner, place)

    def _inlines(self, token: Token, place: Place) -> tuple[Inline, ...]:
        return Inlines(self._lines, place, token.content).read(token.children or ())

    def _list(self, token: Token) -> List:
        items: list[Item] = []
        tight = True
        while not self._closes():
            opening, first = self._next(), self._tokens[self._at]
            tight = tight and (first.hidden or first.type != "paragraph_open")
            items.append(Item(*self._span(opening), self.blocks(), opening.info + opening.markup))
        return List(*self._span(token), tuple(items), token.type == "ordered_list_open", tight)

    def _fence(self, token: Token) -> Fence:
        parts: list[str] = _CODE_LINE.findall(token.content)
        places = self._lines.code(_map(token)[0] + (token.type == "fence"), parts)
        children = tuple(
            Text(self._lines.offset(start), self._lines.offset(end), part, verbatim)
            for part, (start, end, verbatim) in zip(parts, places, strict=True)
        )
        language = _LANGUAGE.match(html.unescape(token.info).strip())
        return Fence(*self._span(token), children, language.group() if language else "")

    def _table(self, token: Token) -> Table:
        rows: list[Row] = []
        aligns: tuple[Align, ...] = ()
        while (inner := self._next()).type != "table_close":
            if inner.type == "tr_open":
                row, found = self._row(inner)
                rows.append(row)
                aligns = aligns or found
        return Table(*self._span(token), tuple(rows), aligns, headed=True)

    def _row(self, token: Token) -> tuple[Row, tuple[Align, ...]]:
        aligns: list[Align] = []
        contents: list[Token] = []
        while not self._closes():
            aligns.append(_ALIGNS.get(self._next().attrs.get("style"), ""))
            contents.append(self._next())
            self._at += 1  # what closes the cell
        places = self._lines.cells(_map(token)[0], [each.content for each in contents])
        cells = tuple(
            Cell(self._lines.offset(place.start), self._lines.offset(place.end), self._inlines(each, place))
            for each, place in zip(contents, places, strict=True)
        )
        return Row(*self._span(token), cells), tuple(aligns)

    def _span(self, token: Token) -> tuple[int, int]:
        first, behind = _map(token)
        return self._lines.offset(self._lines.start(first)), self._lines.offset(self._lines.start(behind))


def _map(token: Token) -> tuple[int, int]:
    first, behind = token.map or (0, 0)
    return first, behind
