"""Cutting a text into pieces: nothing lost, nothing too big, nothing cut that is one thing to a person."""

from __future__ import annotations

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from halo_lib_text import (
    Chunk,
    Document,
    Fence,
    Measure,
    Render,
    parse,
    plain,
    split,
    utf8_length,
    utf16_length,
    within,
)

from .conftest import LETTERS, RELAXED, long_markdown, markdown, shown, walk, wholes
from .platforms import check_slack, check_telegram, slack, telegram

LONG = settings(RELAXED, max_examples=6, phases=[Phase.explicit, Phase.generate])  # too long to shrink
MEASURES: list[Measure] = [len, utf16_length, utf8_length]
RENDERS: list[Render | None] = [None, telegram, slack, plain]
limits = st.one_of(st.integers(16, 80), st.integers(16, 4096))


def is_one(text: str) -> bool:
    """Say whether a text is one character, which may be written as a surrogate pair."""
    return len(text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")) == 1


def pieces(source: str, limit: int, measure: Measure = len, render: Render | None = None) -> list[Chunk]:
    """Split, and see to what holds for every text."""
    chunks = split(source, limit, measure=measure, render=render)
    assert "".join(each.source for each in chunks) == source
    assert [each.start for each in chunks] == [0, *(each.end for each in chunks)][: len(chunks)]
    for each in chunks:
        assert each.source
        assert each.text == (render(each.document) if render else each.source)
        assert measure(each.text) <= limit or is_one(each.source)
    return chunks


@RELAXED
@given(markdown, limits, st.sampled_from(MEASURES), st.sampled_from(RENDERS))
def test_pieces_joined_are_the_source_and_each_is_within_the_limit(
    source: str, limit: int, measure: Measure, render: Render | None
) -> None:
    """Whatever the text, the unit and what is measured, nothing is lost and nothing is too big."""
    pieces(source, limit, measure, render)


@RELAXED
@given(st.text(st.characters()), st.integers(1, 30), st.sampled_from(MEASURES), st.sampled_from(RENDERS))
@example("\ud83d\ude00\ud83d", 1, utf8_length, telegram)
@example("&" * 40, 3, len, telegram)
def test_any_characters_and_any_limit(source: str, limit: int, measure: Measure, render: Render | None) -> None:
    """Half a surrogate pair, control characters and limits below one letter raise nothing and lose nothing."""
    pieces(source, limit, measure, render)


@LONG
@given(long_markdown(), st.sampled_from([280, 1024, 3000, 4096]))
def test_long_texts_on_two_platforms(source: str, limit: int) -> None:
    """Of up to 60,000 characters every piece is one that Telegram and Slack take as it is."""
    for chunk in pieces(source, limit, utf16_length, telegram):
        check_telegram(chunk.text)
    for chunk in pieces(source, limit, len, slack):
        check_slack(chunk.text)


@RELAXED
@given(markdown, limits)
def test_rendered_pieces_are_balanced(source: str, limit: int) -> None:
    """Every tag, entity and fence that a piece opens it closes."""
    for chunk in pieces(source, limit, utf16_length, telegram):
        check_telegram(chunk.text)
    for chunk in pieces(source, limit, len, slack):
        check_slack(chunk.text)


@RELAXED
@given(markdown, limits)
def test_pieces_say_what_the_whole_says(source: str, limit: int) -> None:
    """What the documents of all pieces say is what the whole says, in its order."""
    chunks = pieces(source, limit, len, plain)
    if not any(each.plain for each in chunks):
        assert "".join(shown(each.document) for each in chunks) == shown(parse(source))


@RELAXED
@given(st.lists(st.sampled_from([*LETTERS, "a", "中", " "]), max_size=60).map("".join), st.integers(20, 40))
def test_letters_stay_whole(source: str, limit: int) -> None:
    """No cut parts a combined letter, an emoji, a flag, a surrogate pair or CR LF."""
    cuts = {each.end for each in pieces(source, limit, utf16_length)}
    for letter in LETTERS:
        at = source.find(letter)
        while at >= 0:
            assert not cuts & set(range(at + 1, at + len(letter)))
            at = source.find(letter, at + len(letter))


@RELAXED
@given(markdown, limits)
def test_links_code_and_emphasis_stay_whole(source: str, limit: int) -> None:
    """What is one part of a line is cut only where a piece that begins with it cannot hold it."""
    document = parse(source)
    for chunk in pieces(source, limit):
        for part in wholes(document):
            if part.start < chunk.end < part.end:
                assert part.end - chunk.start > limit
                assert not shown(within(document, chunk.start, part.start)).strip()


def test_a_cut_fence_goes_on_with_its_language() -> None:
    """Each piece of a long fence is a fence of its own, of the same language, cut between lines."""
    source = "Look:\n\n```python\n" + "".join(f"line_{number} = {number}\n" for number in range(200)) + "```\nDone."
    chunks = pieces(source, 500, len, telegram)
    assert len(chunks) > 5
    for chunk in chunks:
        fences = [node for node in walk(chunk.document) if isinstance(node, Fence)]
        assert [each.language for each in fences] == ["python"]
        assert chunk.source.endswith("\n") or chunk is chunks[-1]
    assert [each.resumes for each in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [each.continues for each in chunks] == [True] * (len(chunks) - 1) + [False]


def test_a_cut_list_counts_on() -> None:
    """The items of the second piece have the numbers that they have in the whole."""
    source = "".join(f"{number}. item {number}\n" for number in range(1, 41))
    texts = [each.text for each in pieces(source, 100, len, plain)]
    assert "\n".join(texts) == source.rstrip("\n")


def test_a_cut_item_has_its_marker_once() -> None:
    """The rest of an item that is cut is indented and has no second marker."""
    first, second = pieces("- " + "word " * 18 + "end.", 60, len, plain)
    assert first.text.startswith("- word")
    assert second.text.startswith("  word")


def test_a_cut_table_keeps_its_columns() -> None:
    """Rows of a later piece lie in columns, without the header."""
    rows = [f"| row {number} | {number} |" for number in range(30)]
    chunks = pieces("\n".join(["| name | size |", "|---|--:|", *rows]), 200, len, plain)
    assert chunks[0].text.startswith("name ")
    assert all(" | " in line for each in chunks[1:] for line in each.text.split("\n"))
    assert "name" not in chunks[1].text


def test_a_header_stays_with_a_row_and_a_heading_with_its_text() -> None:
    """A piece does not end with what belongs to the next."""
    words = "Some words. " * 6
    ends = [each.source.rstrip()[-6:] for each in pieces(f"{words}\n\n# Title\n\n{words}\n\n{words}", 90)]
    assert "Title" not in " ".join(ends)


@pytest.mark.parametrize(
    ("source", "limit", "sources"),
    [
        ("One two. Three four. Five", 18, ["One two. ", "Three four. Five"]),
        ("One two\nthree four five", 15, ["One two\n", "three four five"]),
        ("First.\n\nSecond one.\n\nThird", 22, ["First.\n\nSecond one.\n\n", "Third"]),
        ("今天天气很好。我们去公园吧。", 9, ["今天天气很好。", "我们去公园吧。"]),
        ("see [the_docs](http://a.b/c_d) now", 29, ["see ", "[the_docs](http://a.b/c_d) ", "now"]),
        ("see `a b c d e` now", 12, ["see ", "`a b c d e` ", "now"]),
        ("see **a b** now", 8, ["see ", "**a b** ", "now"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
    ],
)
def test_the_best_place(source: str, limit: int, sources: list[str]) -> None:
    """Blocks before lines before sentences before words, and never in a link, code span or emphasis that fits."""
    assert [each.source for each in pieces(source, limit)] == sources


def test_what_does_not_fit_by_its_rules_is_plain_text() -> None:
    """An address that is longer than a message is sent in pieces, without markup, and what follows is as ever."""
    source = "[docs](https://example.org/" + "a" * 300 + ") and **bold** words"
    chunks = pieces(source, 120, len, telegram)
    assert [each.plain for each in chunks] == [True] * (len(chunks) - 1) + [False]
    assert "".join(each.text for each in chunks[:-1]) == source[: source.index(" and")]
    assert chunks[-1].text == " and <b>bold</b> words".strip("\n")


def test_the_text_that_a_refused_piece_is_sent_as_can_be_measured_too() -> None:
    """A renderer that returns the longer of two texts bounds both, so a refused piece can be sent as plain text."""

    def longer(document: Document) -> str:
        return max(telegram(document), plain(document), key=utf16_length)

    source = "A [link](https://example.org/x) and more. " * 100
    for chunk in pieces(source, 300, utf16_length, longer):
        assert utf16_length(plain(chunk.document)) <= 300


def test_a_limit_below_one_is_refused() -> None:
    """A limit of nothing is named."""
    with pytest.raises(ValueError, match="limit: must be at least 1"):
        split("x", 0)
