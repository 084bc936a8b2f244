"""Documents as a platform's text, and as plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_lib_text import PLAIN, Style, Table, fold, grid, parse, plain, utf8_length, utf16_length, width

from .conftest import RELAXED, markdown
from .platforms import check_slack, check_telegram, slack, telegram


@RELAXED
@given(st.lists(st.text("abc déß中文שלום😀,.", min_size=1).map(str.strip).filter(bool), max_size=8))
def test_plain_text_stays_as_it_is(lines: list[str]) -> None:
    """A text without markup is its own plain text."""
    text = "\n".join(lines)
    assert plain(text) == text
    assert plain("\n\n".join(lines)) == "\n\n".join(lines)


@RELAXED
@given(markdown)
def test_whole_texts_are_balanced(source: str) -> None:
    """Whatever the text, what a platform gets is well formed."""
    check_telegram(telegram(parse(source)))
    check_slack(slack(parse(source)))
    assert plain(source) == fold(parse(source), PLAIN)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("**a** *b* `c_d` ~~e~~", "a b c_d ~e~"),
        ("[a_b](https://c.d/e_f)", "a_b (https://c.d/e_f)"),
        ("[c.d](https://c.d/)", "c.d"),
        ("<me@c.d> <https://c.d/ü>", "me@c.d https://c.d/ü"),
        ("![a](https://c.d/e.png)", "a (https://c.d/e.png)"),
        ("[](https://c.d)", "(https://c.d)"),
        ("&lt;b&gt; \\*c\\*", "<b> *c*"),
        ("# a\nb", "a\n\nb"),
        ("> a\n>\n> b\n> > c", "> a\n>\n> b\n>\n> > c"),
        ("- a\n  b\n\n  c\n- d", "- a\n  b\n\n  c\n\n- d"),
        ("9. a\n10. b\n    - c", "9. a\n10. b\n    - c"),
        ("- ```\n  x\n    y\n  ```", "-\nx\n  y"),
        ("***", "———"),
        ("", ""),
        ("[a]: b", ""),
    ],
)
def test_plain(source: str, text: str) -> None:
    """Plain text has no markup but what a reader needs, and code as it is."""
    assert plain(source) == text


def table(source: str) -> Table:
    (found,) = parse(source).children
    assert isinstance(found, Table)
    return found


def test_columns_are_as_wide_as_they_look() -> None:
    """Chinese letters and emoji take two columns, accents none."""
    lines = grid(table("| 名字 | e\u0301 |\n|---|--:|\n| 👍 | long |\n| ab | 1 |")).split("\n")
    assert lines == ["名字 |    e\u0301", "-----+-----", "👍   | long", "ab   |    1"]


def test_a_wide_table_is_not_padded() -> None:
    """Where lines would wrap, columns are parted by bars alone."""
    assert grid(table("| a | b |\n|---|---|\n| c | " + "d" * 100 + " |")).split("\n")[2] == "c | " + "d" * 100


def test_a_style_says_what_is_written_around_things() -> None:
    """A platform's renderer is what it writes; margins, markers and blank lines are done for it."""
    style = Style(
        text=str.upper,
        heading=lambda text, level: f"{'=' * level} {text}",
        quote=lambda text, depth: f"[{depth}:{text}]",
        fence=lambda code, language: f"<{language}>{code}</>",
        table=lambda found: f"{len(found.children)} rows",
        item=lambda marker: "•" if marker == "-" else marker,
        rule="***",
    )
    source = "## a\n\n> b\n> > c\n\n- d\n  - e\n    ```x\n    f\n    ```\n\n| g |\n|---|\n| h |\n\n---"
    assert fold(parse(source), style).split("\n\n") == [
        "== A",
        "[0:B",
        "[1:C]]",
        "• D\n  • E\n<x>f</>",
        "2 rows",
        "***",
    ]


@pytest.mark.parametrize(
    ("text", "utf16", "utf8", "columns"),
    [("abc", 3, 3, 3), ("é", 1, 2, 1), ("e\u0301", 2, 3, 1), ("中", 1, 3, 2), ("😀", 2, 4, 2), ("\ud83d", 1, 3, 1)],
)
def test_lengths(text: str, utf16: int, utf8: int, columns: int) -> None:
    """A text's length in each unit, half a surrogate pair's too."""
    assert (utf16_length(text), utf8_length(text), width(text)) == (utf16, utf8, columns)
