"""A markdown model, its plain renderer, and a splitter for platforms that take so much and no more.

    document = parse(answer)                       # blocks of inlines, frozen, each with its span of the source
    for chunk in split(answer, 4096, measure=utf16_length, render=to_html):
        send(chunk.text, otherwise=plain(chunk.document))

**Model.** `parse` reads any text without raising: CommonMark by markdown-it-py, tables, strikethrough, bare addresses
as links. What a platform cannot show is text: HTML (but for `<br>`), markup beyond ten lists or eight spans in each
other. A node's `start` and `end` are offsets of the source's characters, its markup included. A `Text` is `verbatim` if
its characters are the source's, one by one, so that it can be cut anywhere; others (entities, escapes) stay whole.

**Renderers.** A platform's renderer is a `Style`: what to write around bold text, a link, a fence. `fold` does the
layout (lists with their markers and margins, quotes, blank lines) and calls it. The default `Style` is plain text.

**Splitter.** `split` cuts the source at places that have a rank, so the pieces joined are the source, always. A piece's
document is cut out of the whole one by `within`: it is a document of its own, every tag in it is closed, and a fence,
list, table or bold passage that was cut through goes on in the next with its language, number, columns. So a renderer
knows nothing of pieces, and nothing is parsed twice. Since limits count what a platform shows, `split` measures what
`render` returns. Where even that does not fit (an address longer than a message) the piece is plain text.

Everything takes time in proportion to the text's length, on hostile texts too.
"""

from __future__ import annotations

from .cut import within
from .fold import PLAIN, Style, fold, grid, plain
from .letters import utf8_length, utf16_length, width
from .media import take_media
from .model import (
    Align,
    Block,
    Break,
    Cell,
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
    Node,
    Paragraph,
    Quote,
    Row,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
    children_of,
)
from .parse import parse
from .split import Chunk, Measure, Render, split

__all__ = [
    "PLAIN",
    "Align",
    "Block",
    "Break",
    "Cell",
    "Chunk",
    "Code",
    "Document",
    "Emphasis",
    "Fence",
    "Heading",
    "Image",
    "Inline",
    "Item",
    "Link",
    "List",
    "Measure",
    "Node",
    "Paragraph",
    "Quote",
    "Render",
    "Row",
    "Rule",
    "Strike",
    "Strong",
    "Style",
    "Table",
    "Text",
    "children_of",
    "fold",
    "grid",
    "parse",
    "plain",
    "split",
    "take_media",
    "utf8_length",
    "utf16_length",
    "width",
    "within",
]
