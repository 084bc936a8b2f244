"""What a markdown text says: blocks of inlines, each with the span of the source that it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Align: TypeAlias = Literal["", "left", "center", "right"]


@dataclass(frozen=True, slots=True)
class Node:
    """The characters `source[start:end]`, markup included."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Text(Node):
    """Characters to show; if `verbatim`, character i of `text` is character `start + i` of the source."""

    text: str
    verbatim: bool = True


@dataclass(frozen=True, slots=True)
class Code(Node):
    """A code span."""

    children: tuple[Text, ...]

    @property
    def text(self) -> str:
        """Return the code itself."""
        return "".join(each.text for each in self.children)


@dataclass(frozen=True, slots=True)
class Emphasis(Node):
    """Italic text."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Strong(Node):
    """Bold text."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Strike(Node):
    """Text that is struck through."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Link(Node):
    """A link in any of its forms, bare addresses too; `url` is percent-encoded and never a script."""

    children: tuple[Inline, ...]
    url: str


@dataclass(frozen=True, slots=True)
class Image(Node):
    """An image by its address, with the words that stand in for it."""

    alt: str
    url: str


@dataclass(frozen=True, slots=True)
class Break(Node):
    """The end of a line inside of a paragraph; `hard` if the text asks for it."""

    hard: bool


@dataclass(frozen=True, slots=True)
class Paragraph(Node):
    """A paragraph."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Heading(Node):
    """A heading of level 1 to 6."""

    children: tuple[Inline, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Quote(Node):
    """A block quote."""

    children: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Item(Node):
    """An item of a list; `marker` is the source's (`-`, `3.`), `resumed` says that a cut took its beginning."""

    children: tuple[Block, ...]
    marker: str
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class List(Node):
    """A list; in a `tight` one no blank lines part the items."""

    children: tuple[Item, ...]
    ordered: bool
    tight: bool


@dataclass(frozen=True, slots=True)
class Fence(Node):
    """Code, fenced or indented; a child is a line with its end."""

    children: tuple[Text, ...]
    language: str

    @property
    def text(self) -> str:
        """Return the code itself, without the end of its last line."""
        return "".join(each.text for each in self.children).removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Cell(Node):
    """A cell of a table."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Row(Node):
    """A row of a table, with as many cells as the table has columns."""

    children: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table(Node):
    """A table; the first row is its header if `headed`, which a cut may have taken."""

    children: tuple[Row, ...]
    aligns: tuple[Align, ...]
    headed: bool


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """A line across the page."""


@dataclass(frozen=True, slots=True)
class Document(Node):
    """A whole text, or the piece of one that `within` cut out."""

    children: tuple[Block, ...]


Span: TypeAlias = Emphasis | Strong | Strike
Inline: TypeAlias = Text | Code | Span | Link | Image | Break
Block: TypeAlias = Paragraph | Heading | Quote | List | Fence | Table | Rule


def children_of(node: Node) -> Sequence[Node]:
    """Return the nodes below one, none for a leaf."""
    children: Sequence[Node] = getattr(node, "children", ())
    return children
