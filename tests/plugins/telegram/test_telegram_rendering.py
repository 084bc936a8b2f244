"""Answers in Telegram's HTML, within its limit."""

from __future__ import annotations

import re
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.platforms.telegram.html_markup import parse_html

from halo_lib_text import parse, plain, utf16_length
from halo_telegram.rendering import LIMIT, file_of, messages, pieces, to_html

WORDS = r"""**bold** _it_ ~~no~~ `x < 1 & y` # [l_i_nk](https://e.org/a_b?c=1&d=2) <b>raw</b> &amp; | > - 1. \* 😀 漢字
é "' https://e.org/x_y_z [x]: ![i](u) <script> $"""
BLOCKS = "\n", "\n\n", "\n- ", "\n   - ", "\n> ", "\n```py\ncode\n```\n", "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
BITS = [*re.split(r"\s", WORDS), *BLOCKS]
MARKDOWN = st.lists(st.sampled_from(BITS) | st.text(max_size=12), max_size=60).map(" ".join)


@given(text=MARKDOWN)
@settings(max_examples=200, deadline=None)
def test_any_text_is_html_that_the_platform_takes(text: str) -> None:
    """Each piece is well-formed, says what its plain text says, and is within the limit in both forms."""
    for piece in pieces(text):
        shown = parse_html(to_html(piece.document))[0].strip()
        assert utf16_length(shown) <= utf16_length(plain(piece.document)) <= LIMIT


@given(text=MARKDOWN, repeat=st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_between_pieces(text: str, repeat: int) -> None:
    """The messages of a long text joined are the text, but for white space; none is blank."""
    whole = text * repeat
    if "MEDIA:" in whole:
        return
    parts = messages(whole)
    assert "".join("".join(parts).split()) == "".join(whole.split())
    assert all(part.strip() for part in parts)


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**a** _b_ ~~c~~ `d<`", "<b>a</b> <i>b</i> <s>c</s> <code>d&lt;</code>"),
        ("# Head", "<b>Head</b>"),
        ('[a & b](https://e.org/?x=1&y="2")', '<a href="https://e.org/?x=1&amp;y=%222%22">a &amp; b</a>'),
        ("```py\nx < 1\n```", '<pre><code class="language-py">x &lt; 1</code></pre>'),
        ("> a\n> > b", "<blockquote>a\n\n&gt; b</blockquote>"),
        ("<b>raw</b>", "&lt;b&gt;raw&lt;/b&gt;"),
        ("![lamp](https://e.org/l.png)", '<a href="https://e.org/l.png">lamp</a>'),
        ("[x](ftp://e.org)", "x (ftp://e.org)"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
    ],
)
def test_markdown_in_html(markdown: str, html: str) -> None:
    """Each mark has its tag; what Telegram has no tag for is text."""
    assert to_html(parse(markdown)) == html


def test_a_hostile_text_takes_no_time() -> None:
    """A megabyte in one line is cut in seconds."""
    start = perf_counter()
    parts = messages("```\n" + "x" * 1_000_000 + "\n```")
    assert perf_counter() - start < 10
    assert len(parts) == -(-1_000_000 // LIMIT)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a\nMEDIA:b.png\nc", ["a\nc", "MEDIA:b.png"]),
        ("MEDIA: a b.png ", ["MEDIA:a b.png"]),
        ("```\nMEDIA:x\n```", ["```\nMEDIA:x\n```"]),
        ("say MEDIA:x", ["say MEDIA:x"]),
    ],
)
def test_files_come_after_words(text: str, parts: list[str]) -> None:
    """A line of its own that begins with MEDIA: is a file; anywhere else it is text."""
    assert list(messages(text)) == parts
    assert [file_of(part) for part in parts] == [
        part.removeprefix("MEDIA:") if part.startswith("MEDIA:") else "" for part in parts
    ]
