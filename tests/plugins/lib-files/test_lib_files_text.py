"""Windows of lines, binary files and literal edits."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_lib_files import NoEdit, looks_binary, replace_literal, window

LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff"), max_size=30), max_size=20)


@given(lines=LINES, first=st.integers(1, 25), limit=st.integers(1, 25), end=st.sampled_from(["\n", "\r\n"]))
def test_a_window_is_a_slice(lines: list[str], first: int, limit: int, end: str) -> None:
    """A window shows the lines that a slice has, counts all, and says how many are left."""
    file = io.BytesIO("".join(line + end for line in lines).encode())
    seen = window(file, first=first, limit=limit)
    assert list(seen.lines) == lines[first - 1 : first - 1 + limit]
    assert seen.total == len(lines)
    assert seen.left == max(0, len(lines) - (first - 1) - len(seen.lines))


@given(lines=LINES.filter(bool), chars=st.integers(0, 200))
def test_windows_in_a_row_show_every_line_once(lines: list[str], chars: int) -> None:
    """However few characters a window may have, going on where it ended shows every line, and ends."""
    file = io.BytesIO("\n".join(lines).encode() + b"\n")
    shown, first = list[str](), 1
    while True:
        file.seek(0)
        seen = window(file, first=first, chars=chars)
        assert len(seen.lines) == 1 or sum(len(line) + 1 for line in seen.lines) <= chars
        shown += seen.lines
        first += len(seen.lines)
        if not seen.left:
            break
    assert shown == lines


def test_long_lines_are_cut() -> None:
    """A line longer than the width, or than a piece of reading, is one line that says how long it was."""
    file = io.BytesIO(b"\xef\xbb\xbfshort\n" + b"x" * 200_000 + b"\nlast")
    seen = window(file, width=10)
    assert seen.lines == ("short", "x" * 10 + " [line cut: 200001 bytes]", "last")


def test_bytes_that_are_not_utf8_are_shown() -> None:
    """Bad bytes become U+FFFD and never an error."""
    assert window(io.BytesIO(b"caf\xe9\n")).lines == ("caf�",)


@given(
    text=st.text(max_size=60).filter(lambda text: "\r" not in text),
    old=st.text(min_size=1, max_size=3),
    new=st.text(max_size=3),
)
def test_an_edit_is_literal(text: str, old: str, new: str) -> None:
    """An edit is `str.replace`, or a refusal for the reason that holds."""
    count = text.count(old)
    if old == new or count == 0:
        with pytest.raises(NoEdit):
            replace_literal(text, old, new, every=True)
        return
    assert replace_literal(text, old, new, every=True) == text.replace(old, new)
    if count > 1:
        with pytest.raises(NoEdit, match=f"{count} times"):
            replace_literal(text, old, new)
    else:
        assert replace_literal(text, old, new) == text.replace(old, new)


def test_backslashes_and_dollars_stand_for_themselves() -> None:
    """No character of a replacement has a meaning."""
    assert replace_literal("a.b", ".", r"\1$&$1") == r"a\1$&$1b"


def test_crlf_files_keep_their_line_ends() -> None:
    """Where all lines end in CRLF, LF in an edit stands for CRLF; files with both are taken literally."""
    assert replace_literal("a\r\nb\r\n", "a\nb", "x\ny\nz") == "x\r\ny\r\nz\r\n"
    assert replace_literal("a\r\nb\n", "b\n", "c\nd\n") == "a\r\nc\nd\n"
    with pytest.raises(NoEdit):
        replace_literal("a\r\nb\n", "a\nb", "x")


def test_an_empty_text_is_not_searched_for() -> None:
    """Nothing cannot be replaced."""
    with pytest.raises(NoEdit, match="empty"):
        replace_literal("abc", "", "x")


def test_a_nul_makes_a_file_binary() -> None:
    """A NUL among the first 512 bytes is the mark of a binary file, one after them is not."""
    assert looks_binary(b"a\0b")
    assert not looks_binary(b"a" * 512 + b"\0")
    assert not looks_binary("ünï中".encode())
