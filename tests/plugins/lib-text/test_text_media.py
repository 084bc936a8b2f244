"""The line by which an answer attaches a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_lib_text import take_media

from .conftest import RELAXED, markdown


@pytest.mark.parametrize(
    ("text", "left", "paths"),
    [
        ("MEDIA:/a.png", "", ("/a.png",)),
        ("Here:\n\nMEDIA:/a.png\n\nDone", "Here:\n\nDone", ("/a.png",)),
        ("Here:\nMEDIA:/a.png\nDone", "Here:\nDone", ("/a.png",)),
        ("  MEDIA:  my file.pdf \t\nDone", "Done", ("my file.pdf",)),
        ("MEDIA:/a\nMEDIA:/b\n\n\nx\n\nMEDIA:/c", "x", ("/a", "/b", "/c")),
        ("- item\n\n  MEDIA:/a\n", "- item", ("/a",)),
        ("a\r\n\r\nMEDIA:/a\r\n\r\nb", "a\r\n\r\nb", ("/a",)),
        ("```\nMEDIA:/a\n```", "```\nMEDIA:/a\n```", ()),
        ("- x\n  ~~~\n  MEDIA:/a\n  ~~~\nMEDIA:/b", "- x\n  ~~~\n  MEDIA:/a\n  ~~~", ("/b",)),
        ("see MEDIA:/a.png", "see MEDIA:/a.png", ()),
        ("MEDIA:\n\n\n\nx", "MEDIA:\n\n\n\nx", ()),
        ("a\n\n\n\nb", "a\n\n\n\nb", ()),
    ],
)
def test_markers(text: str, left: str, paths: tuple[str, ...]) -> None:
    """A line of its own is a marker, blanks around it or not; in code, in a line or without a path it is text."""
    assert take_media(text) == (left, paths)


@RELAXED
@given(markdown, st.text("abc/ ._é", min_size=1).map(str.strip).filter(bool))
def test_what_is_left_has_no_markers(text: str, path: str) -> None:
    """Whatever stands around a marker, its path is found, and what is left has none to find."""
    left, paths = take_media(f"MEDIA:{path}\n\n{text}")
    assert paths[0] == path
    assert take_media(left)[1] == ()
