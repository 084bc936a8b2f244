"""The settings file is changed entry by entry: whatever a person wrote around one stays."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import BadFile, BadInput, SettingsFile
from halo_lib_settings import changed

PATH = Path("settings.yaml")
NAMES = ["alpha", "beta", "gamma", "delta", "b-c", "with space", "1", "true", "é", "#x", "a: b"]
Scalars = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
)
Values = st.recursive(
    Scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@dataclass
class Written:
    """A file as a person might write it, with what it means and which lines belong to which setting."""

    lines: list[str] = field(default_factory=list[str])
    data: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    owned: dict[tuple[str, str], set[int]] = field(default_factory=dict[tuple[str, str], set[int]])
    newline: str = "\n"
    end: str = "\n"

    @property
    def text(self) -> str:
        return self.newline.join(self.lines) + (self.end and self.newline)


def key_text(name: str) -> str:
    return name if re.fullmatch("[a-z-]+", name) and name != "true" else json.dumps(name, ensure_ascii=False)


@st.composite
def comments(draw: st.DrawFn, above: list[str], indent: str = "") -> list[str]:
    """Some whole-line comments and blank lines, none so deep that it could become part of a block of text above it."""
    has_block = any(line.strip() in ("more", "text") for line in above)
    choices = ["", f"{indent}# note", "# at the margin", *([] if has_block else [f"{indent}    # far: in"])]
    return draw(st.lists(st.sampled_from(choices), max_size=2))


@st.composite
def values(draw: st.DrawFn, indent: str) -> tuple[object, list[str]]:
    """A value and its lines: the first goes behind the key, the others below it."""
    number, word = draw(st.integers(0, 999)), draw(st.sampled_from(["x", "it's", "a # b", "<<ENV>>"]))
    mark = draw(st.sampled_from(["", "  # why", " #: odd"]))
    deep = indent + "  "
    forms: list[tuple[object, list[str]]] = [
        (number, [f" {number}{mark}"]),
        (word, [f" {json.dumps(word)}{mark}"]),
        (word, [" '" + word.replace("'", "''") + "'" + mark]),
        ([number, word], [f" [{number}, {json.dumps(word)}]{mark}"]),
        ([number, word], [f"{mark}", f"{deep}- {number}  # inner", f"{deep}- {json.dumps(word)}"]),
        ([number], [f"{mark}", f"{indent}- {number}"]),
        ({"k": number}, [f"{mark}", f"{deep}# inner", f"{deep}k: {number}"]),
        ({"k": {"l": word}}, [f" {{k: {{l: {json.dumps(word)}}}}}{mark}"]),
        (f"{word}\nmore\n", [f" |{mark}", f"{deep}{word}", f"{deep}more"]),
        ("folded text", [" >-", f"{deep}folded", f"{deep}text"]),
    ]
    return draw(st.sampled_from(forms))


@st.composite
def documents(draw: st.DrawFn) -> Written:
    """Sections with fields in all the ways of writing them, and comments in all places."""
    written = Written(newline=draw(st.sampled_from(["\n", "\r\n"])), end=draw(st.sampled_from(["\n", ""])))
    written.lines += draw(comments(written.lines))
    for section in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        written.lines.append(f"{key_text(section)}:{draw(st.sampled_from(['', ' # head']))}")
        written.data[section] = {}
        indent = draw(st.sampled_from(["  ", "    "]))
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)):
            written.lines += draw(comments(written.lines, indent))
            value, lines = draw(values(indent))
            start = len(written.lines)
            written.lines += [f"{indent}{key_text(name)}:{lines[0]}", *lines[1:]]
            written.owned[section, name] = set(range(start, len(written.lines)))
            written.data[section][name] = value
    written.lines += draw(comments(written.lines))
    if any("|" in line for line in written.lines):
        written.end = "\n"  # else the text would mean no line end
    return written


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(line in rest for line in part)


def lines_of(file: SettingsFile) -> list[str]:
    return re.split(r"\r?\n", file.text)


def others(written: Written, keys: tuple[str, ...]) -> list[str]:
    mine = written.owned.get((keys[0], keys[-1]), set())
    return [line for number, line in enumerate(written.lines) if number not in mine]


@settings(deadline=None)
@given(documents())
def test_it_reads_what_a_person_means(written: Written) -> None:
    """Every way of writing a value means that value, and each key is found on its line."""
    file = SettingsFile(PATH, written.text)
    assert {key: each for key, each in file.data.items() if each} == {k: v for k, v in written.data.items() if v}
    for keys, lines in written.owned.items():
        assert file.line(".".join(keys)) == min(lines) + 1


@settings(deadline=None)
@given(documents(), st.sampled_from(NAMES), st.sampled_from(NAMES), Values)
def test_setting_a_value_touches_nothing_else(written: Written, section: str, name: str, value: object) -> None:
    """After a change the file means the same but for that value, and all other lines are there unchanged, in order."""
    file = changed(SettingsFile(PATH, written.text), f"{section}.{name}", value)
    expected = {**written.data, section: {**written.data.get(section, {}), name: value}}
    assert file.data[section] == expected[section]
    assert {key: each for key, each in file.data.items() if each} == {k: v for k, v in expected.items() if v}
    assert is_subsequence(others(written, (section, name)), lines_of(file))


@settings(deadline=None)
@given(documents(), st.data())
def test_a_comment_behind_a_value_outlives_it(written: Written, data: st.DataObject) -> None:
    """Changing a value on one line keeps the remark behind it."""
    single = {keys: min(lines) for keys, lines in written.owned.items() if len(lines) == 1}
    for keys, number in single.items():
        file = changed(SettingsFile(PATH, written.text), ".".join(keys), data.draw(Scalars))
        for remark in ("  # why", " #: odd"):
            if written.lines[number].endswith(remark):
                assert lines_of(file)[number].endswith(remark)


@settings(deadline=None)
@given(documents(), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_taking_a_value_out_touches_nothing_else(written: Written, section: str, name: str) -> None:
    """A removed setting takes its own lines with it and no other; one that is not there changes nothing."""
    file = changed(SettingsFile(PATH, written.text), f"{section}.{name}", None)
    assert name not in (file.data.get(section) or {})  # type: ignore[operator]
    assert is_subsequence(others(written, (section, name)), lines_of(file))
    if (section, name) not in written.owned:
        assert file.text == written.text


@settings(deadline=None)
@given(documents(), st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.none() | Values), max_size=5))
def test_changes_add_up(written: Written, changes: list[tuple[str, str, object]]) -> None:
    """Any sequence of changes leaves the sum of them, and a file that reads back the same."""
    file, expected = SettingsFile(PATH, written.text), {key: dict(each) for key, each in written.data.items()}
    for section, name, value in changes:
        file = changed(file, f"{section}.{name}", value)
        expected.setdefault(section, {})[name] = value
    kept = {key: {k: v for k, v in each.items() if v is not None} for key, each in expected.items()}
    found = {key: {k: v for k, v in (each or {}).items() if v is not None} for key, each in file.data.items()}  # type: ignore[attr-defined]
    assert {key: each for key, each in found.items() if each} == {key: each for key, each in kept.items() if each}
    assert SettingsFile(PATH, file.text).data == file.data


FORMS = [
    ("s: {a: 1, b: 2} # c\n", ("s", "a"), 9, "s: # c\n  a: 9\n  b: 2\n"),
    ("s: {a: 1, b: 2} # c\n", ("s", "z"), 9, "s: # c\n  a: 1\n  b: 2\n  z: 9\n"),
    ("s: {a: 1, b: 2} # c\n", ("s", "a"), None, "s: # c\n  b: 2\n"),
    (
        "s:\n  a: {b: {c: 1}} # d\nt: 1\n",
        ("s", "a", "b", "x"),
        2,
        "s:\n  a: # d\n    b:\n      c: 1\n      x: 2\nt: 1\n",
    ),
    ("s: {a: 1}\nt: 1\n", ("s", "a"), None, "t: 1\n"),
    ("s: {\n  a: 1,\n  b: 2 }\nt: 1\n", ("s", "a"), 9, "s:\n  a: 9\n  b: 2\nt: 1\n"),
    ("s: {}\n", ("s", "a", "b"), 1, "s:\n  a:\n    b: 1\n"),
    ("s: # why\n", ("s", "a"), 1, "s: # why\n  a: 1\n"),
    ("s: # why\n  # a: 7\n\nt: 1\n", ("s", "a"), 1, "s: # why\n  a: 1\n  # a: 7\n\nt: 1\n"),
    ("s: ~ # why\n", ("s", "a"), 1, "s: # why\n  a: 1\n"),
    ("s:\n  a:\n    b: 1\n", ("s", "a", "c"), 2, "s:\n  a:\n    c: 2\n    b: 1\n"),
    ("s:\n  a:\n", ("s", "a"), 2, "s:\n  a: 2\n"),
    ("# only this", ("s", "a", "b"), "x", "# only this\ns:\n  a:\n    b: x\n"),
    ("s:\n  a: # who\n  - x # one\n  # mid\n  - y\n  # end\n", ("s", "a"), ["z"], 's:\n  a: ["z"] # who\n  # end\n'),
    ("s:\n  a: 1\n  # c\n\nt: 1\r\n", ("s", "a"), None, "s:\r\n  # c\r\n\r\nt: 1\r\n"),
    ("---\ns:\n  a: 1\n", ("s", "a"), None, "---\ns:\n"),
    ("s:\n  a: 1\r# c\rt: 1\n", ("s", "a"), 2, "s:\n  a: 2\n# c\nt: 1\n"),
    ("  s:\n    a: 1\n", ("t", "b"), "no", '  s:\n    a: 1\n  t:\n    b: "no"\n'),
    ("a: &x {k: 1}\nb: *x\ns:\n  c: 1\n", ("s", "c"), 2, "a: &x {k: 1}\nb: *x\ns:\n  c: 2\n"),
]


@pytest.mark.parametrize(("before", "keys", "value", "after"), FORMS)
def test_every_form_is_changed_as_a_person_would(before: str, keys: tuple[str, ...], value: object, after: str) -> None:
    """Sections written on one line, empty ones, nested ones and aliases elsewhere: comments and other entries stay."""
    assert changed(SettingsFile(PATH, before), ".".join(keys), value).text == after


@pytest.mark.parametrize("text", ["s: &x\n  a: 1\nt: *x\n", "b: &b {a: 1}\ns:\n  <<: *b\n", "{s: {a: 1}, b: {c: 1}}\n"])
def test_what_a_program_cannot_change_is_refused(text: str) -> None:
    """Where a change would change something else too, the file stays and the person is told."""
    with pytest.raises(BadFile, match="only a person can change"):
        changed(changed(SettingsFile(PATH, text), "t.a", 2), "s.a", None)


def test_a_value_that_no_file_can_hold_is_refused() -> None:
    """Half a surrogate pair, infinity and objects are refused by key."""
    for value in ("\ud800", float("inf"), object()):
        with pytest.raises(BadInput) as raised:
            changed(SettingsFile(PATH, ""), "s.a", value)
        assert raised.value.field == "s.a"
