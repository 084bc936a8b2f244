"""The settings file is read, or refused with the place that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import BadFile, SettingsFile

PATH = Path("settings.yaml")


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    """Whatever is in the file, it is read, or refused by a `BadFile` with the path, and a line if one is to blame."""
    try:
        SettingsFile(PATH, text)
    except BadFile as error:
        assert error.path == str(PATH)
        assert 0 <= error.line <= len(text.splitlines())


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("server:\n  port: 1\n  host: [a\nx: 1\n", 4, "not valid YAML"),
        ("server:\n\tport: 1\n", 2, "cannot start any token"),
        ("a: 1\nserver:\n  port: 1\n  port: 2\n", 4, "duplicate key"),
        ("server:\n  port: 'x\n", 2, "end of stream"),
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("- a\n", 1, "must hold sections"),
        ("a: !!python/name:os.system x\n", 1, "could not determine a constructor"),
        ("a: 2020-99-99\n", 0, "month"),
        ("a: !!int ''\n", 0, "index out of range"),
        ("a: !!bool x\n", 0, "'x'"),
        ("a: .inf\n", 0, "not JSON compliant"),
        ("? [a]\n: 1\n", 0, "keys must be"),
    ],
)
def test_a_syntax_error_names_its_line(text: str, line: int, words: str) -> None:
    """A broken file is refused with the path, the line, and what is wrong."""
    with pytest.raises(BadFile, match=words) as raised:
        SettingsFile(PATH, text)
    assert (raised.value.path, raised.value.line) == (str(PATH), line)
    assert str(raised.value).startswith(f"{PATH}:{line}: ")


def test_an_error_shows_no_secret() -> None:
    """A duplicate key is named without the values of the two."""
    with pytest.raises(BadFile) as raised:
        SettingsFile(PATH, "server:\n  password: hunter2\n  password: hunter3\n")
    assert "hunter" not in str(raised.value)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """A file in another encoding is refused by path, and so is a folder in its place."""
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    for found in (path, tmp_path):
        with pytest.raises(BadFile, match="cannot be read") as raised:
            SettingsFile.read(found)
        assert raised.value.path == str(found)
        assert raised.value.advice == "mend or restore it"
