"""What a text is cut into, and that the engine finds by it what is there."""

from __future__ import annotations

import sqlite3
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import BadInput
from halo_search.cutter import cut, tokens
from halo_search.query import Query, parse_query

SOME = st.text(alphabet='abÄß1 .-"世界人ハ한🎉👍_', max_size=24)


def words(text: str) -> list[str]:
    return [item.text for item in cut(text)]


def engine(*texts: str) -> sqlite3.Connection:
    """Return SQLite with the texts as the index keeps them, those of owner 7."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5(tokens, tokenize = \"ascii tokenchars '_'\")")
    for text in texts:
        row = " ".join(f"7_{token}" for token in tokens(cut(text)))
        database.execute("INSERT INTO words(tokens) VALUES (?)", (row,))
    return database


def found(database: sqlite3.Connection, query: Query, owner: int = 7) -> list[int]:
    asked = (query.expression(owner),)
    return [row for (row,) in database.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", asked)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Straße, naïve co-op 3.5", ["strasse", "naïve", "co", "op", "3", "5"]),
        ("ＡＢＣ ｶﾞ", ["abc", "ガ"]),
        ("数据库abc系统", ["数", "据", "库", "abc", "系", "统"]),
        ("ok🎉 👩‍🚀 👍🏽 ⏰⭐", ["ok", "🎉", "👩", "🚀", "👍", "⏰", "⭐"]),
        ("한국어", ["한", "국", "어"]),
        (" \t.,:;!?—", []),
    ],
)
def test_texts_are_cut_into_words_and_characters(text: str, expected: list[str]) -> None:
    """Words are folded; characters of scripts without spaces, and emoji, stand alone; signs are left out."""
    assert words(text) == expected


def test_characters_that_stand_alone_are_kept_with_their_next() -> None:
    """Of a row of characters each is kept with its next, the last one by itself; a space between them parts them."""
    assert tokens(cut("世界人 世 abc")) == ["世界", "界人", "人", "世", "abc"]


@given(st.text())
def test_items_lie_in_the_text_in_order(text: str) -> None:
    """Items have their places in the text, none of them empty, in order, for any text."""
    items = cut(text)
    assert all(0 <= item.start < item.end <= len(text) and item.text for item in items)
    places = [(item.start, item.end) for item in items]
    assert places == sorted(places)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_text_is_cut_as_any_other(text: str) -> None:
    """What stands beside a word makes no difference to how it is cut."""
    assert cut(text) == cut(f"{text} 世")[:-1]


@given(st.text(alphabet=st.characters(exclude_categories=["M", "Cs"])))
def test_composition_makes_no_difference(text: str) -> None:
    """A text is cut alike however its letters are composed."""
    assert words(normalize("NFC", text)) == words(normalize("NFD", text))


@given(SOME, SOME)
def test_the_engine_finds_what_is_there(text: str, q: str) -> None:
    """The engine matches a text if, and only if, all phrases of the query are in it and none that it leaves out."""
    try:
        query = parse_query(q)
    except BadInput:
        return
    items = cut(text)
    wanted = all(any(phrase.spans(items)) for phrase in query.wanted)
    unwanted = any(any(phrase.spans(items)) for phrase in query.unwanted)
    assert found(engine(text), query) == ([1] if wanted and not unwanted else [])


@given(SOME.filter(lambda text: bool(cut(text))), st.data())
def test_every_part_of_a_text_finds_it(text: str, data: st.DataObject) -> None:
    """Whatever stretch of items somebody copies out of a text, as a phrase it finds the text, for its owner alone."""
    items = cut(text)
    first = data.draw(st.integers(0, len(items) - 1))
    last = data.draw(st.integers(first, len(items) - 1))
    part = text[items[first].start : items[last].end].replace('"', " ")
    query = parse_query(f'"{part}"')
    assert found(engine(text), query) == [1]
    assert found(engine(text), query, owner=77) == []
