"""What others wrote, on a terminal: read, never obeyed."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_cli.terminal import shown, visible

CODES = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {0x09, 0x0A}
ACTING = {chr(code) for code in CODES}
TEXT = st.text(st.one_of(st.characters(), st.sampled_from(sorted(ACTING))))


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@given(TEXT)
def test_a_terminal_gets_nothing_to_obey(text: str) -> None:
    """No control character but tab and newline, and none that turns the writing, reaches a terminal."""
    assert ACTING.isdisjoint(visible(text))


@given(st.text().filter(ACTING.isdisjoint))
def test_a_text_without_them_stays(text: str) -> None:
    """Any other text is shown as it is."""
    assert visible(text) == text


@given(TEXT)
def test_json_on_a_terminal_is_still_the_same(text: str) -> None:
    """An object that is shown on a terminal holds what it held."""
    assert json.loads(visible(json.dumps({"text": text}, ensure_ascii=False))) == {"text": text}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb\r\nc\td", "a\\x0db\nc\td"),
        ("\x9b31m\x7f", "\\u009b31m\\u007f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
    ],
)
def test_they_are_written_out_on_a_terminal_only(text: str, seen: str) -> None:
    """A person sees that they are there; a pipe has the text as it is."""
    assert shown(text, Screen()) == seen
    assert shown(text, io.StringIO()) == text
    assert shown(text, None) == text
