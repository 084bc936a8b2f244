"""Made-up markdown, and walks over the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from halo_lib_text import Code, Document, Emphasis, Image, Link, Node, Strike, Strong, Text, children_of

LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
RELAXED = settings(deadline=None, max_examples=60, suppress_health_check=LARGE)

# What people see as one letter, each of several code points.
_FAMILY, _RAINBOW, _ENGLAND = "👨‍👩‍👧‍👦", "🏳️‍🌈", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
LETTERS = ["e\u0301", _FAMILY, _RAINBOW, "👍🏽", "🇩🇪", _ENGLAND, "\u1112\u1161\u11ab", "क्ष", "ก็"]
LETTERS += ["\ud83d\ude00", "\r\n"]
_WORDS = ["word", "snake_case_name", "a*b", "5 < 6 & 7", "C:\\dir", "\x00", "…"]
_FOREIGN = ["中文句子。", "价格：", "שלום", "مرحبا", "𝒳𝒴"]
_MARKS = ["*", "**", "_", "~~", "`", "``", "```", "[", "](", ")", "<", ">", "&", "\\", "|", "#", "-"]
_GAPS = ["\n", "\n\n", "    ", "\t"]
_PARTS = [
    "`code_span_x`",
    "``a ` b``",
    "[a_link_b](https://example.org/a_b_c?d=e_f&g=*h*)",
    "https://example.org/x_y_z_(w)/__init__.py",
    "<https://example.org/auto_link>",
    "![an image](https://example.org/i_1.png)",
    "&amp;",
    "&#128512;",
    "\\*",
    "<br>",
    "<u>html</u>",
]
_CODE = ["x = 1", "", "    if a_b:", "é" * 90, "```x", "```"]


def _wrapped(mark: str, inner: str) -> str:
    return mark + inner + mark


def _indented(text: str, by: str) -> str:
    return "\n".join(by + each for each in text.split("\n"))


def _quoted(blocks: list[str]) -> str:
    return _indented("\n\n".join(blocks), "> ")


def _listed(marker: str, items: list[str]) -> str:
    return "\n".join(marker + _indented(each, " " * len(marker))[len(marker) :] for each in items)


def _fence(mark: str, language: str, body: list[str]) -> str:
    return "\n".join([mark + language, *body, mark])


def _table(rows: list[list[str]]) -> str:
    cells = [[each.replace("|", "\\|").replace("\n", " ") for each in row] for row in rows]
    shown = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([shown[0], "|---|:-:|", *shown[1:]])


_words = st.one_of(*map(st.sampled_from, (_WORDS, _FOREIGN, LETTERS, _PARTS)), st.text(max_size=8))
_spaced = st.lists(_words, min_size=1, max_size=8).map(" ".join)
_spans = st.builds(_wrapped, st.sampled_from(["**", "*", "_", "~~", "***"]), _spaced)
_lines = st.lists(_words | _spans, min_size=1, max_size=12).map(" ".join)
_solid = st.lists(_words | _spans | st.sampled_from(_MARKS + _GAPS), min_size=1, max_size=30).map("".join)
_code = st.lists(st.text(max_size=20) | st.sampled_from(_CODE))
_fences = st.builds(_fence, st.sampled_from(["```", "~~~", "````"]), st.sampled_from(["", "py", "c++ x"]), _code)
_tables = st.lists(st.lists(_spaced, min_size=2, max_size=2), min_size=1, max_size=5).map(_table)


def _holding(blocks: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(blocks, min_size=1, max_size=3)
    return several.map(_quoted) | st.builds(_listed, st.sampled_from(["- ", "3. "]), several)


_plain_blocks = st.one_of(_lines, _solid, _lines.map("# {}".format), st.just("---"), _fences, _tables)
_blocks = st.recursive(_plain_blocks, _holding, max_leaves=6)
markdown = st.lists(_blocks, max_size=6).map("\n\n".join)


@st.composite
def long_markdown(draw: st.DrawFn) -> str:
    """Up to 60,000 characters of the same kinds of things, in an order that is drawn."""
    parts = draw(st.lists(_blocks, min_size=4, max_size=10))
    length = draw(st.integers(1, 60_000))
    random = draw(st.randoms(use_true_random=False))
    chosen, size = [], 0
    while size < length:
        chosen.append(random.choice(parts) + random.choice(["\n\n", "\n", " "]))
        size += len(chosen[-1])
    return "".join(chosen)[:length]


@pytest.fixture(autouse=True, scope="session")
def strict() -> Iterator[None]:
    """Let a text that the parser stumbles over fail the test, where others would get it as plain text."""

    def fail(*arguments: object) -> NoReturn:
        raise  # noqa: PLE0704 - the parser's own error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["halo_lib_text.parse"], "plain_document", fail)
        yield


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it."""
    yield node
    for child in children_of(node):
        yield from walk(child)


def shown(document: Document) -> str:
    """Return the characters of a document without markup and layout."""
    return "".join(node.text for node in walk(document) if isinstance(node, Text))


_WHOLE = (Code, Emphasis, Image, Link, Strike, Strong)


def wholes(node: Node) -> Iterator[Node]:
    """Yield the outermost parts of lines that are to stay whole."""
    for child in children_of(node):
        whole = not child.verbatim if isinstance(child, Text) else isinstance(child, _WHOLE)
        if whole:
            yield child
        else:
            yield from wholes(child)
