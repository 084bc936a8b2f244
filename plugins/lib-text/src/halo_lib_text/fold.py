"""Turns a document into a platform's text: the layout is here, what a platform writes around things is a `Style`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from .letters import width
from .model import (
    Block,
    Break,
    Code,
    Document,
    Emphasis,
    Fence,
    Heading,
    Image,
    Inline,
    Item,
    Link,
    List,
    Paragraph,
    Quote,
    Strike,
    Strong,
    Table,
    Text,
)
from .parse import parse

_WIDEST = 80  # columns of a table that is laid out; a wider one would wrap, and padding it costs


def same(text: str) -> str:
    """Return the text."""
    return text


def _link(label: str, url: str) -> str:
    return label if _address(label) == _address(unquote(url)) else f"{label} ({url})".lstrip()


def _address(text: str) -> str:
    return re.sub(r"^(mailto:|https?://)|/$", "", text)


def _strike(text: str) -> str:
    return f"~{text}~"  # without it the text would say the opposite


def _heading(text: str, level: int) -> str:
    return text


def _quote(text: str, depth: int) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _fence(code: str, language: str) -> str:
    return code


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """What a platform writes; each function gets text that is rendered, but for `text`, `code` and `fence`.

    The defaults are plain text. `quote` gets how many quotes it lies in too, `heading` its level, `item` a list item's
    marker as it is in the source; `table` the table itself, which is a fence around its `grid` if there is no `table`.
    """

    text: Callable[[str], str] = same
    code: Callable[[str], str] = same
    emphasis: Callable[[str], str] = same
    strong: Callable[[str], str] = same
    strike: Callable[[str], str] = _strike
    link: Callable[[str, str], str] = _link
    image: Callable[[str, str], str] = _link
    heading: Callable[[str, int], str] = _heading
    quote: Callable[[str, int], str] = _quote
    fence: Callable[[str, str], str] = _fence
    table: Callable[[Table], str] | None = None
    item: Callable[[str], str] = same
    rule: str = "———"


PLAIN = Style()


def fold(document: Document, style: Style) -> str:
    """Return a document as a platform's text."""
    return _Fold(style).blocks(document.children, "", 0).strip("\n")


def plain(source: str | Document) -> str:
    """Return a text without its markup: links as `text (url)`, lists with their markers, code as it is."""
    return fold(parse(source) if isinstance(source, str) else source, PLAIN)


def grid(table: Table) -> str:
    """Return a table as plain text in columns of one width each; too wide a one in rows with bars alone."""
    rows = [[_cell(each.children) for each in row.children] for row in table.children]
    widths = [max(3, *map(width, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 3 * len(widths) > _WIDEST:
        widths = [0] * len(widths)
    lines = [" | ".join(_padded(*each) for each in zip(row, widths, table.aligns, strict=True)) for row in rows]
    if table.headed:
        lines.insert(1, "-+-".join("-" * (each or 3) for each in widths))
    return "\n".join(line.rstrip() for line in lines)


def _cell(inlines: Sequence[Inline]) -> str:
    return " ".join(_Fold(PLAIN).inlines(inlines).split())


def _padded(text: str, columns: int, align: str) -> str:
    spare = max(columns - width(text), 0)
    left = {"right": spare, "center": spare // 2}.get(align, 0)
    return " " * left + text + " " * (spare - left)


class _Fold:
    """One walk; `pad` is the margin of what lies in list items, which code and tables do without."""

    def __init__(self, style: Style) -> None:
        self._style = style

    def blocks(self, blocks: Sequence[Block], pad: str, quotes: int, between: str = "\n\n") -> str:
        return between.join(self._block(each, pad, quotes) for each in blocks)

    def _block(self, block: Block, pad: str, quotes: int) -> str:
        style = self._style
        match block:
            case Paragraph():
                return _indented(self.inlines(block.children), pad)
            case Heading():
                return _indented(style.heading(self.inlines(block.children), block.level), pad)
            case Quote():
                return _indented(style.quote(self.blocks(block.children, "", quotes + 1), quotes), pad)
            case List():
                between = "\n" if block.tight else "\n\n"
                return between.join(self._item(each, block.tight, pad, quotes) for each in block.children)
            case Fence():
                return style.fence(block.text, block.language)
            case Table():
                return style.table(block) if style.table else style.fence(grid(block), "")
            case _:
                return pad + style.rule

    def _item(self, item: Item, tight: bool, pad: str, quotes: int) -> str:
        marker = self._style.item(item.marker) + " "
        inner = pad + " " * len(marker)
        body = self.blocks(item.children, inner, quotes, "\n" if tight else "\n\n")
        if item.resumed:
            return body
        if item.children and isinstance(item.children[0], Fence | Table):
            return f"{pad}{marker.rstrip()}\n{body}"
        return pad + marker + body.removeprefix(inner)

    def inlines(self, inlines: Sequence[Inline]) -> str:
        return "".join(map(self._inline, inlines))

    def _inline(self, inline: Inline) -> str:
        style = self._style
        match inline:
            case Text():
                return style.text(inline.text)
            case Code():
                return style.code(inline.text)
            case Emphasis():
                return style.emphasis(self.inlines(inline.children))
            case Strong():
                return style.strong(self.inlines(inline.children))
            case Strike():
                return style.strike(self.inlines(inline.children))
            case Link():
                return style.link(self.inlines(inline.children), inline.url)
            case Image():
                return style.image(style.text(inline.alt), inline.url)
            case Break():
                return "\n"


def _indented(text: str, pad: str) -> str:
    return "\n".join(pad + line if line else line for line in text.split("\n")) if pad else text
