"""What the model says of a text, and where it says that it came from."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_lib_text import (
    Break,
    Code,
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
    parse,
    tokens,
    within,
)
from halo_lib_text.split import plain_document

from .conftest import RELAXED, markdown, shown, walk


def only(source: str, kind: type[Node]) -> list[Node]:
    return [node for node in walk(parse(source)) if isinstance(node, kind)]


def line(source: str) -> tuple[Inline, ...]:
    """Return the inlines of a text of one paragraph."""
    (paragraph,) = parse(source).children
    assert isinstance(paragraph, Paragraph)
    return paragraph.children


@RELAXED
@given(st.one_of(markdown, st.text(st.characters()), st.text("*_`[]()<>&\\|#->~! \n\t\ra1:/中", max_size=80)))
def test_every_text_has_a_model_whose_spans_are_true(source: str) -> None:
    """Nothing raises; children lie in order within their parent; a verbatim text is what the source has there."""
    for node in walk(parse(source)):
        assert 0 <= node.start <= node.end <= len(source)
        for child in children_of(node):
            assert node.start <= child.start <= child.end <= node.end
        for before, after in pairwise(children_of(node)):
            assert (before.start, before.end) == (after.start, after.end) or before.end <= after.start
        if isinstance(node, Text) and node.verbatim:
            there = source[node.start : node.start + len(node.text)].replace("\0", "\ufffd")
            assert re.sub(r"[\r\n]", " ", there) == node.text.replace("\n", " ")  # in code spans lines are joined


@RELAXED
@given(markdown, st.data())
def test_what_is_cut_out_is_a_part_of_the_whole(source: str, data: st.DataObject) -> None:
    """Two parts at any place say what the whole says, but for what is not to be cut, which the first of them says."""
    document = parse(source)
    at = data.draw(st.integers(0, len(source)))
    first, second = within(document, 0, at), within(document, at, len(source))
    assert shown(first) + shown(second) == shown(document)


def test_a_text_that_the_parser_stumbles_over_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the parser costs the markup, not the message."""

    def stumble(text: str) -> NoReturn:
        raise IndexError

    monkeypatch.setattr(tokens, "tokenize", stumble)
    monkeypatch.setattr(sys.modules["halo_lib_text.parse"], "plain_document", plain_document)
    assert line("**a**\n\nb") == (Text(0, 8, "**a**\n\nb"),)


_HALF = st.sampled_from(
    ["\ud83d", "\udc00", "xn--", "%zz", "[", ")", ">", "://", "mailto:", "中", "&#xD800;", "\\", ".", "a"]
)
_FORMS = st.sampled_from(["[a]({})", "<http://{}>", "![a](<{}>)", "[a]\n\n[a]: {}", "https://a{}", "```{}\na", "&{};"])


@RELAXED
@given(_FORMS, st.lists(_HALF, max_size=8).map("".join))
def test_any_address_is_read(form: str, address: str) -> None:
    """Addresses that are none, of halves of characters and the wrong encodings, raise nothing."""
    assert parse(form.replace("{}", address)).end == len(form) - 2 + len(address)


def test_the_parser_is_loaded_with_the_first_text() -> None:
    """Importing the library imports no parser."""
    code = "import sys, halo_lib_text; assert 'markdown_it' not in sys.modules; halo_lib_text.parse('a')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_blocks_and_their_spans() -> None:
    """Each kind of block is found, with the lines that it came from."""
    source = "# One\n\ntwo\n\n> three\n\n- four\n\n```c\nfive\n```\n\n| six |\n|---|\n| 6 |\n\n---\n\n    seven\n"
    blocks = parse(source).children
    assert [type(each) for each in blocks] == [Heading, Paragraph, Quote, List, Fence, Table, Rule, Fence]
    assert [source[each.start : each.end].strip("\n") for each in blocks] == source.strip("\n").split("\n\n")


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("*a*", [Emphasis]),
        ("__a__", [Strong]),
        ("~~a~~", [Strike]),
        ("`a`", [Code]),
        ("[a](b)", [Link]),
        ("![a](b)", [Image]),
        ("<https://a.b>", [Link]),
        ("a\nb", [Text, Break, Text]),
        ("a<br/>b", [Text, Break, Text]),
        ("<b>a</b>", [Text]),
        ("a_b_c 2*3*n", [Text]),
        ("**注意：**请看", [Strong, Text]),
        ("把**“模式”**关掉", [Text, Strong, Text]),
        ("**결론(요약)**은", [Strong, Text]),
        ("[a](javascript:b)", [Text]),
    ],
)
def test_inlines(source: str, kinds: list[type[Node]]) -> None:
    """Each kind of inline is found, also where letters have no spaces around them."""
    assert [type(each) for each in line(source)] == kinds


@pytest.mark.parametrize(
    ("source", "url"),
    [
        ("https://a.b/c_d_e", "https://a.b/c_d_e"),
        ("see https://a.b/_x_/y, or", "https://a.b/_x_/y"),
        ("(https://a.b/c_(d))", "https://a.b/c_(d)"),
        ("**https://a.b/c_d**", "https://a.b/c_d"),
        ("访问https://a.b/c_d。", "https://a.b/c_d"),
        ("HTTP://a.b?x=1&y=2;", "HTTP://a.b?x=1&y=2"),
        ("[t_x_t](https://a.b/c_d_e 'f_g')", "https://a.b/c_d_e"),
        ("[https://a.b/c_d](https://e.f/g_h)", "https://e.f/g_h"),
        ("[a][b_c]\n\n[b_c]: https://a.b/c_d", "https://a.b/c_d"),
    ],
)
def test_addresses_keep_their_underscores(source: str, url: str) -> None:
    """An address is a link to where it says, whatever characters it has and wherever it stands."""
    links = [node for node in walk(parse(source)) if isinstance(node, Link)]
    assert [each.url for each in links] == [url]
    assert not only(source, Emphasis)


@pytest.mark.parametrize("source", ["https://", "xhttps://a.b", "ftp://a.b", "http:// a"])
def test_what_is_no_address(source: str) -> None:
    """What lacks a host or a scheme of the web is text."""
    assert not only(source, Link)


def test_lists() -> None:
    """Items have the source's markers; a list is tight if its items are."""
    tight, loose = parse("- a\n  1) b\n  2) c\n\n\ntext\n\n3. d\n\n4. e").children[::2]
    assert isinstance(tight, List) and isinstance(loose, List)
    assert (tight.tight, tight.ordered, loose.tight, loose.ordered) == (True, False, False, True)
    markers = [node.marker for node in only("- a\n  1) b\n  2) c", Item) if isinstance(node, Item)]
    assert markers == ["-", "1)", "2)"]
    assert [each.marker for each in loose.children] == ["3.", "4."]


def test_tables() -> None:
    """Rows have as many cells as the header, escaped bars are bars, and cells hold inlines."""
    (table,) = parse("| a | b | c |\n|:--|:-:|--:|\n| `x\\|y` | | **z** |\n| 1 |").children
    assert isinstance(table, Table)
    assert table.aligns == ("left", "center", "right")
    assert [[shown_cell(cell) for cell in row.children] for row in table.children] == [
        ["a", "b", "c"],
        ["x|y", "", "z"],
        ["1", "", ""],
    ]


def shown_cell(cell: Node) -> str:
    return "".join(node.text for node in walk(cell) if isinstance(node, Text))


@pytest.mark.parametrize(
    ("source", "language", "text"),
    [
        ("```python title='x'\na\n```", "python", "a"),
        ("~~~{.js}\na\n~~~", "", "a"),
        ("```\na\n\n b", "", "a\n\n b"),
        ("- x\n  ```c++\n  a\n    b\n  ```", "c++", "a\n  b"),
        ("> ```\n> a\n> ```", "", "a"),
        ("```\r\na\r\nb\r\n```", "", "a\nb"),
        ("```\n\ta\u2028b\n```", "", "\ta\u2028b"),
        ("```", "", ""),
    ],
)
def test_fences(source: str, language: str, text: str) -> None:
    """Code is what is between the fences, without the margin of what it lies in; a fence that is not closed is one."""
    (fence,) = (node for node in walk(parse(source)) if isinstance(node, Fence))
    assert (fence.language, fence.text) == (language, text)


@pytest.mark.parametrize("source", ["> " * 200 + "word", "- " * 200 + "word", "**a " * 200 + "word" + "**" * 200])
def test_depth_is_bounded_and_nothing_is_lost_by_it(source: str) -> None:
    """What lies too deep is text."""
    document = parse(source)
    assert "word" in shown(document)
    assert depth(document) < 60


def depth(node: Node) -> int:
    return 1 + max(map(depth, children_of(node)), default=0)


def test_a_row_that_is_cut_keeps_its_columns() -> None:
    """In each part of a row the other columns are empty."""
    source = "| a | b |\n|---|---|\n| c | d |"
    at = source.index(" d")
    rows = [node for node in walk(within(parse(source), at, len(source))) if isinstance(node, Row)]
    assert [[shown_cell(cell) for cell in row.children] for row in rows] == [["", "d"]]
