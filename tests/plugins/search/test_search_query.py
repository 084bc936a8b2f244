"""What somebody asks for."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import BadInput
from halo_search.query import LONGEST, parse_query


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("one two", '"3_one" AND "3_two"*'),
        ('"one two"', '"3_one 3_two"'),
        ("“one two” three x", '"3_one 3_two" AND "3_three" AND "3_x"'),
        ("one -two", '("3_one") NOT ("3_two")'),
        ('one -"two three" -四', '("3_one") NOT ("3_two 3_three" OR "3_四"*)'),
        ("co-op", '"3_co 3_op"*'),
        ("世界", '"3_世界"*'),
        ("世", '"3_世"*'),
        ('"unclosed one', '"3_unclosed" AND "3_one"*'),
        ("AND OR NOT NEAR(a) *", '"3_and" AND "3_or" AND "3_not" AND "3_near 3_a"'),
    ],
)
def test_a_query_is_words_phrases_and_what_must_not_be_there(text: str, expression: str) -> None:
    """Words must all be there, the last one may be only begun; quotes make phrases; a dash leaves out."""
    assert parse_query(text).expression(3) == expression


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must not be empty"),
        (" \t", "must not be empty"),
        ("...", "a letter, a digit or an emoji"),
        ("-one", "beside those that it leaves out"),
        ("x" * (LONGEST + 1), f"at most {LONGEST} characters, not {LONGEST + 1}"),
    ],
)
def test_what_is_no_query_is_refused(text: str, says: str) -> None:
    """What names nothing to look for is one error that names the field and the rule."""
    with pytest.raises(BadInput, match=says) as refused:
        parse_query(text)
    assert refused.value.field == "q"


@given(st.text(max_size=LONGEST + 5) | st.text(alphabet="a \"-*^():{}'世🎉“”", max_size=60))
def test_any_text_is_a_query_or_one_error(text: str) -> None:
    """Any text is refused with the field's name, or the engine takes what becomes of it."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5(tokens, tokenize = \"ascii tokenchars '_'\")")
    try:
        query = parse_query(text)
    except BadInput as error:
        assert error.field == "q"
        return
    assert not list(database.execute("SELECT rowid FROM words WHERE words MATCH ?", (query.expression(1),)))
