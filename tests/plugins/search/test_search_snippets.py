"""The piece of a text that is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import BadInput
from halo_search.query import parse_query
from halo_search.snippets import snippet

TEXTS = st.text(alphabet="ab \n.世界🎉", max_size=600)


def marked(text: str, q: str) -> str:
    return "".join(f"[{piece.text}]" if piece.hit else piece.text for piece in snippet(text, parse_query(q)))


def test_hits_are_marked_as_they_are_written() -> None:
    """What was looked for is marked in the text's own letters, each time, joined where it touches."""
    assert marked("Die STRASSE, die Straße", "strasse") == "Die [STRASSE], die [Straße]"
    assert marked("你好世界人民", '"世界" 界人') == "你好[世界人]民"
    assert marked("one two one", '"one two"') == "[one two] one"


def test_a_long_text_is_shown_around_its_first_hit() -> None:
    """Of a long text about 200 characters are shown, some of them before the hit, with an ellipsis where it was cut."""
    shown = marked("x " * 200 + "needle " + "y " * 200, "needle")
    assert shown.startswith("…") and shown.endswith("…") and "[needle]" in shown
    assert 150 < len(shown) < 250


def test_what_is_not_there_any_more_is_no_hit() -> None:
    """A text that lacks what was looked for, or has what was left out, shows nothing."""
    assert not marked("one two", "three") and not marked("one two", "one -two")


@given(TEXTS, st.text(alphabet='ab "-世界🎉', max_size=8))
def test_pieces_are_the_text(text: str, q: str) -> None:
    """The pieces, none of them empty, are a part of the text but for the ellipses; one at least is a hit."""
    try:
        pieces = snippet(text, parse_query(q))
    except BadInput:
        return
    if pieces:
        assert all(piece.text for piece in pieces) and any(piece.hit for piece in pieces)
        assert "".join(piece.text for piece in pieces).strip("…") in text
        longest = max(len(piece.text) for piece in pieces if piece.hit)
        assert sum(len(piece.text) for piece in pieces) <= 260 + longest
