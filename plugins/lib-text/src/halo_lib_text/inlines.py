"""Reads the parser's inline tokens into the model, with their places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .model import Break, Code, Emphasis, Image, Inline, Link, Strike, Strong, Text
from .source import Lines, Place

if TYPE_CHECKING:
    from markdown_it.token import Token

SPAN = "span"  # in a token's `meta`: where its markup begins and ends in the block's content; plain text has none
_DEEPEST = 8  # spans in each other; more is mischief, and whoever walks the model does so by recursion
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


@dataclass(slots=True)
class _Frame:
    """A span that is being read; one without `opening` lies too deep, and its content is its parent's."""

    opening: Token | None
    children: list[Inline] = field(default_factory=list[Inline])


class Inlines:
    """The inlines of one block, whose content the parser took from `place`."""

    def __init__(self, lines: Lines, place: Place, content: str) -> None:
        self._lines = lines
        self._place = place
        self._content = content
        self._read = 0  # how much of the content is in the model
        self._frames = [_Frame(None)]

    def read(self, tokens: Sequence[Token]) -> tuple[Inline, ...]:
        """Return what the tokens say."""
        for token in tokens:
            if token.nesting > 0:
                self._open(token)
            elif token.nesting < 0:
                self._close(token)
            else:
                self._leaf(token)
        return _joined(self._frames[0].children)

    def _open(self, token: Token) -> None:
        if len(self._frames) > _DEEPEST and token.type != "link_open":
            self._text(token, token.markup)
            self._frames.append(_Frame(None, self._frames[-1].children))
            return
        self._frames.append(_Frame(token))
        start, end = self._span(token)
        self._read = max(self._read, start + (self._content[start] in "[<") if token.type == "link_open" else end)

    def _close(self, token: Token) -> None:
        frame = self._frames.pop()
        if frame.opening is None:
            self._text(token, token.markup)
            return
        (start, _), (_, end) = self._span(frame.opening), self._span(token)
        self._read = max(self._read, end)
        begin, close = self._outside(start, end)
        children = _joined(frame.children)
        match token.type:
            case "link_close":
                if frame.opening.info == "auto":  # half an address is none
                    children = tuple(replace(each, verbatim=False) for each in children if isinstance(each, Text))
                node: Inline = Link(begin, close, children, str(frame.opening.attrs["href"]))
            case "strong_close":
                node = Strong(begin, close, children)
            case "s_close":
                node = Strike(begin, close, children)
            case _:
                node = Emphasis(begin, close, children)
        self._add(node)

    def _leaf(self, token: Token) -> None:
        start, end = self._span(token)
        begin, close = self._outside(start, end)
        match token.type:
            case "softbreak" | "hardbreak":
                self._add(Break(begin, close, token.type == "hardbreak"))
            case "html_inline" if _LINE_BREAK.fullmatch(token.content):
                self._add(Break(begin, close, True))
            case "image":
                self._add(Image(begin, close, token.content, str(token.attrs["src"])))
            case "code_inline":
                self._add(Code(begin, close, (self._code(token, start, end),)))
            case _:
                self._text(token, token.content)
        self._read = max(self._read, end)

    def _code(self, token: Token, start: int, end: int) -> Text:
        ticks = len(token.markup)
        spaced = end - start - 2 * ticks > len(token.content)
        begin, close = self._outside(start + ticks + spaced, end - ticks - spaced)
        return Text(begin, close, token.content, self._place.exact and close - begin == len(token.content))

    def _text(self, token: Token, text: str) -> None:
        """Add text; what has no span of its own begins where the last token ended."""
        start, end = self._span(token, len(text))
        start, self._read = max(start, self._read), max(end, self._read)
        if text:
            begin, close = self._outside(start, max(end, start))
            verbatim = self._place.exact and close - begin == len(text) and self._content.startswith(text, start)
            self._add(Text(begin, close, text, verbatim))

    def _add(self, node: Inline) -> None:
        self._frames[-1].children.append(node)

    def _span(self, token: Token, length: int = 0) -> tuple[int, int]:
        """Return where a token's markup lies in the content; of a `**` the parser placed the inner half."""
        span: tuple[int, int] | None = token.meta.get(SPAN)
        if span is None:
            return self._read, self._read + length
        start, end = span
        return start - (token.type == "strong_open"), end + (token.type == "strong_close")

    def _outside(self, start: int, end: int) -> tuple[int, int]:
        if not self._place.exact:
            return self._lines.offset(self._place.start), self._lines.offset(self._place.end)
        return self._lines.offset(self._place.at(start)), self._lines.offset(self._place.at(end))


def _joined(nodes: list[Inline]) -> tuple[Inline, ...]:
    """Join the texts that follow each other in the source without anything between them."""
    joined: list[Inline] = []
    run: list[Text] = []
    for node in nodes:
        if isinstance(node, Text) and node.verbatim and (not run or run[-1].end == node.start):
            run.append(node)
            continue
        _flush(run, joined)
        if isinstance(node, Text) and node.verbatim:
            run.append(node)
        else:
            joined.append(node)
    _flush(run, joined)
    return tuple(joined)


def _flush(run: list[Text], into: list[Inline]) -> None:
    if run:
        into.append(Text(run[0].start, run[-1].end, "".join(each.text for each in run)))
        run.clear()
