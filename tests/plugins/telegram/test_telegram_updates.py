"""What updates say, in all shapes that they come in."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import Account
from halo_telegram.intake import listed
from halo_telegram.mentions import Me, is_meant, said
from halo_telegram.updates import Message, Numbered, Person, Update, cut

ME = Me(7, "halo_bot")
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


def message(text: str, marks: list[dict[str, Any]], **more: Any) -> Message:
    """Return a message in a group."""
    raw = {"message_id": 1, "chat": {"id": -1, "type": "group"}, "text": text, "entities": marks, **more}
    return msgspec.convert(raw, Message)


def units(text: str) -> int:
    """Count UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


@given(before=WORDS, after=WORDS)
def test_a_name_is_found_behind_any_letters(before: str, after: str) -> None:
    """Marks count UTF-16 units: whatever comes before, the name is found and taken out, and nothing else."""
    mark = {"type": "mention", "offset": units(before), "length": units("@Halo_Bot")}
    found = message(f"{before}@Halo_Bot{after}", [mark])
    assert is_meant(found, ME, "mention")
    assert said(found, ME) == (f"{before}{after}".strip() or f"{before}@Halo_Bot{after}".strip())


@given(text=WORDS, name=st.sampled_from(["", "@halo_bot", "@HALO_BOT"]))
def test_a_command_is_taken_without_the_name(text: str, name: str) -> None:
    """`/help@halo_bot` says `/help`."""
    found = message(f"/help{name} {text}", [{"type": "bot_command", "offset": 0, "length": units(f"/help{name}")}])
    assert is_meant(found, ME, "mention", {"help"})
    assert is_meant(found, ME, "mention") == bool(name)
    assert said(found, ME) == f"/help {text}".strip()


@given(
    marks=st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(["mention", "bot_command", "text_mention", "bold", "new kind"]),
                "offset": st.integers(0, 60),
                "length": st.integers(0, 60),
            }
        ),
        max_size=5,
    ),
    text=WORDS,
)
def test_marks_that_lie_do_no_harm(marks: list[dict[str, Any]], text: str) -> None:
    """Marks beyond the text, over each other or in the middle of a letter raise nothing."""
    found = message(text, marks)
    is_meant(found, ME, "mention")
    assert said(found, ME) == text.strip() or "halo_bot" in text.lower()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(number=st.integers(1, 2**40), kind=st.sampled_from(["message", "edited_message", "poll", "x"]), body=JSON)
def test_any_update_has_a_number(number: int, kind: str, body: object) -> None:
    """Whatever is in an update, it is read or refused as a whole."""
    raw = msgspec.json.encode({"update_id": number, kind: body})
    with suppress(msgspec.ValidationError):
        assert msgspec.json.decode(raw, type=Update).update_id == number
    assert msgspec.json.decode(raw, type=Numbered).update_id == number


@given(text=WORDS, offset=st.integers(0, 80), length=st.integers(0, 80))
def test_a_cut_is_a_part(text: str, offset: int, length: int) -> None:
    """A cut by UTF-16 units never raises, and a cut of all is all."""
    assert cut(text, 0, units(text)) == text
    assert units(cut(text, offset, length)) <= max(length, 0) + 1


@pytest.mark.parametrize(
    ("allowed", "user"),
    [
        ((), "5"),
        (("5",), "5"),
        (("@ANN_LEE",), "@ANN_LEE"),
        (("ann_lee", "6"), "ann_lee"),
        (("@ann",), None),
        (("6",), None),
        (("",), None),
    ],
)
def test_who_is_on_the_list(allowed: tuple[str, ...], user: str | None) -> None:
    """A list has numbers and names with or without @, in any case; without one everybody may write."""
    account = Account(type="telegram", id="bot", workspace="/w", allowed=allowed)
    assert listed(account, Person(5, username="Ann_Lee")) == user


def test_nobody_is_on_a_list_without_a_name() -> None:
    """A person without a username is not the empty name."""
    assert listed(Account(type="telegram", id="bot", workspace="/w", allowed=("@",)), Person(5)) is None
