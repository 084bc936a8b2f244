"""A workspace's settings over the home's: what may be said there, what not, and what a broken file does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from halo_kernel import Secret, Section, WorkspaceInfo
from halo_kernel.settings import Settings


class Vendor(Struct, frozen=True, kw_only=True):
    """A part that holds a secret."""

    url: str = ""
    key: Secret | None = None


class Inner(Struct, frozen=True, kw_only=True):
    """Fields within a field."""

    depth: Annotated[int, Meta(ge=0, le=9)] = 3
    width: int = 4


class Acme(Struct, frozen=True, kw_only=True):
    """A section with every kind of field."""

    model: str = "big"
    steps: Annotated[int, Meta(ge=1, le=100, extra={"env": "ACME_STEPS"})] = 10
    ratio: float = 0.5
    tags: tuple[str, ...] = ()
    inner: Inner = Inner()
    token: Secret | None = None
    vendors: dict[str, Vendor] = {}
    port: Annotated[int, Meta(extra={"global_only": True})] = 80


class Whole(Struct, frozen=True, kw_only=True):
    """A section of the server alone."""

    level: int = 1


SECTIONS = [("acme", Section("acme", Acme)), ("whole", Section("whole", Whole, global_only=True))]


class Place:
    """A home and a workspace whose files a test writes."""

    def __init__(self, path: Path) -> None:
        self.home = path / "home"
        self.file = self.home / "secrets" / "settings.yaml"
        self.file.parent.mkdir(parents=True)
        self.info = WorkspaceInfo(id="w", path=str(path / "work"))
        self.over = path / "work" / ".halo" / "settings.yaml"
        self.over.parent.mkdir(parents=True)

    def load(self, home: str = "", over: str = "", **env: str) -> Settings:
        if home:
            self.file.write_text(home)
        if over:
            self.over.write_text(over)
        return Settings(self.home, SECTIONS, env)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_workspace_says_what_differs(place: Place) -> None:
    """Each key of its own wins over the home's file and the default, for this workspace; all others are the home's."""
    loaded = place.load(
        "acme: {steps: 20, tags: [a], inner: {depth: 1}}\n", "acme:\n  model: small\n  inner: {width: 7}\n"
    )
    mine = loaded.of(Acme, place.info)
    assert mine == Acme(model="small", steps=20, tags=("a",), inner=Inner(width=7))
    assert loaded.of(Acme) == Acme(steps=20, tags=("a",), inner=Inner(depth=1))
    sources = {field.key: (field.source, field.default) for field in loaded.at(place.info).fields.values()}
    assert sources["acme.model"] == ("workspace", "big")
    assert sources["acme.inner"] == ("workspace", Inner())
    assert sources["acme.steps"] == ("file", 10)
    assert sources["acme.ratio"] == ("default", 0.5)


def test_a_workspace_without_a_file_has_the_homes_settings(place: Place) -> None:
    """Nothing is made, and nothing said."""
    loaded = place.load("acme: {steps: 20}\n")
    assert loaded.of(Acme, place.info) == loaded.of(Acme)
    assert loaded.at(place.info).findings == []
    assert list(place.over.parent.iterdir()) == []


def test_a_variable_beats_the_workspace(place: Place) -> None:
    """The operator's environment has the last word."""
    loaded = place.load("", "acme: {steps: 5}\n", ACME_STEPS="7")
    assert loaded.of(Acme, place.info).steps == 7


def test_both_files_are_read_again_when_they_change(place: Place) -> None:
    """A change by hand counts at the next look, in the home and in the workspace, and so does deleting the file."""
    loaded = place.load("acme: {steps: 20}\n", "acme: {model: small}\n")
    assert loaded.of(Acme, place.info) == Acme(model="small", steps=20)
    place.file.write_text("acme: {steps: 21, ratio: 1}\n")
    assert loaded.of(Acme).steps == 21
    assert loaded.of(Acme, place.info) == Acme(model="small", steps=21, ratio=1)
    place.over.write_text("acme: {model: tiny, ratio: 2}\n")
    assert loaded.of(Acme, place.info) == Acme(model="tiny", steps=21, ratio=2)
    place.over.unlink()
    assert loaded.of(Acme, place.info) == loaded.of(Acme)
    place.file.unlink()
    assert loaded.of(Acme, place.info) == Acme()


def test_a_file_that_did_not_change_is_not_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking costs a look at the file's time, not a reading."""
    loaded = place.load("acme: {steps: 20}\n", "acme: {model: small}\n")
    first = loaded.of(Acme, place.info)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read again"))
    assert loaded.of(Acme, place.info) is first


# what a workspace cannot say


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("acme.port", "acme:\n  port: 1\n"),
        ("acme.token", "acme:\n  token: abcdefghij\n"),
        ("acme.vendors", "acme:\n  vendors: {x: {url: u, key: abcdefghij}}\n"),
        ("whole.level", "whole:\n  level: 5\n"),
    ],
)
def test_what_is_the_servers_is_ignored_and_said(place: Place, key: str, text: str) -> None:
    """A global-only key and every secret in a workspace's file counts nowhere, is named with its line, and not kept."""
    loaded = place.load("", text)
    assert loaded.of(Acme, place.info) == Acme()
    assert loaded.of(Whole, place.info) == Whole()
    (finding,) = loaded.at(place.info).findings
    assert (finding.key, finding.line) == (key, 2)
    assert "counts for the whole server" in finding.text
    assert loaded.redactor("abcdefghij") == "abcdefghij"


def test_a_workspace_reads_no_environment(place: Place) -> None:
    """A placeholder in a file that may come from a stranger stays as it is, and is remarked on."""
    loaded = place.load("", "acme:\n  model: x-<<API_KEY>>\n", API_KEY="hush")
    assert loaded.of(Acme, place.info).model == "x-<<API_KEY>>"
    (finding,) = loaded.at(place.info).findings
    assert (finding.key, finding.line) == ("acme.model", 2)
    assert "hush" not in finding.text


def test_unknown_keys_of_a_workspace_are_remarked_on(place: Place) -> None:
    """They are named with the line in that file, and nowhere else."""
    loaded = place.load("", "acme:\n  model: small\n  modle: x\nacem: {}\n")
    assert {(each.key, each.line) for each in loaded.at(place.info).findings} == {("acme.modle", 3), ("acem", 4)}
    assert loaded.at().findings == []


# broken files


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("acme:\n  steps: 1000\n", 2, "acme.steps"),
        ("acme:\n  steps: [\n", 2, ""),
        ("acme:\n  - 1\n", 1, "acme"),
        ("acme:\n  inner: {depth: 10}\n", 2, "acme.inner"),
    ],
)
def test_a_broken_file_leaves_what_counted(place: Place, text: str, line: int, field: str) -> None:
    """For that workspace alone the former values go on, path, line and key are told, and the repair counts at once."""
    loaded = place.load("acme: {steps: 20}\n", "acme: {model: small}\n")
    assert loaded.of(Acme, place.info).model == "small"
    place.over.write_text(text)
    assert loaded.of(Acme, place.info) == Acme(model="small", steps=20)
    (finding,) = loaded.at(place.info).findings
    assert (finding.key, finding.line) == (field, line)
    assert finding.text.startswith(f"{place.over}:{line}: ")
    assert loaded.at().findings == []
    place.over.write_text("acme: {model: tiny}\n")
    assert loaded.of(Acme, place.info) == Acme(model="tiny", steps=20)
    assert loaded.at(place.info).findings == []


def test_a_file_that_is_broken_from_the_start_leaves_the_homes(place: Place) -> None:
    """Where nothing counted before, the home's values do, also after those were changed."""
    loaded = place.load("acme: {steps: 20}\n", "acme: [\n")
    assert loaded.of(Acme, place.info).steps == 20
    place.file.write_text("acme: {steps: 30}\n")
    assert loaded.of(Acme, place.info).steps == 30
    assert len(loaded.at(place.info).findings) == 1


def test_the_homes_file_may_break_while_the_server_runs(place: Place) -> None:
    """The former values go on, and why is told, until the file is right again."""
    loaded = place.load("acme: {steps: 20, model: written}\n")
    for text in ("acme: {steps: x, ratio: 1}\n", "acme: [\n"):
        place.file.write_text(text)
        assert (loaded.of(Acme).steps, loaded.of(Acme).model) == (20, "written")
        (finding,) = loaded.at().findings
        assert finding.line == 1
    place.file.write_text("acme: {steps: 22}\n")
    assert loaded.of(Acme).steps == 22
    assert loaded.at().findings == []


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "large", "bomb"])
def test_a_strange_file_harms_nobody(place: Place, kind: str) -> None:
    """A link, a folder, a pipe, a huge file and aliases without end are refused at once."""
    other = place.over.parent / "other.yaml"
    other.write_text("acme: {model: other}\n")
    if kind == "link":
        place.over.symlink_to(other)
    elif kind == "folder":
        place.over.mkdir()
    elif kind == "pipe":
        os.mkfifo(place.over)
    else:
        place.over.write_text(BOMB if kind == "bomb" else "acme: {model: other}\n" + "#" * 300_000)
    loaded = place.load("acme: {steps: 20}\n")
    assert loaded.of(Acme, place.info) == Acme(steps=20)
    (finding,) = loaded.at(place.info).findings
    assert str(place.over) in finding.text
