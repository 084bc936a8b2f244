"""Changes of a workspace's settings: what may be written there, what not, and what becomes of a broken file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from halo_kernel import BadFile, BadInput, Conflict, Secret, Section, WorkspaceInfo
from halo_kernel.settings import Settings
from halo_lib_settings import revision_of, write_settings


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


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)
LARGE = "acme: {model: other}\n" + "#" * 300_000


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acme.port", 1),
        ("acme.token", "x"),
        ("acme.vendors.x.key", "x"),
        ("acme.vendors.x", {"url": "u"}),
        ("whole.level", None),
    ],
)
def test_what_is_the_servers_cannot_be_written_there(place: Place, key: str, value: object) -> None:
    """Writing it for a workspace is refused by name, together with all else of that change."""
    loaded = place.load("", "acme: {model: small}\n")
    with pytest.raises(BadInput, match="counts for the whole server") as raised:
        write_settings(loaded, {"acme.steps": 3, key: value}, workspace=place.info)
    assert raised.value.field == key
    assert place.over.read_text() == "acme: {model: small}\n"


@pytest.mark.parametrize(
    "text", ["acme:\n  steps: 1000\n", "acme:\n  steps: [\n", "acme:\n  inner: {depth: 10}\n", BOMB, LARGE]
)
def test_a_broken_file_stays_as_it_is(place: Place, text: str) -> None:
    """A change of what cannot be read is refused, and leaves that to a person."""
    loaded = place.load("acme: {steps: 20}\n", text)
    with pytest.raises(BadInput):
        write_settings(loaded, {"acme.model": "tiny"}, workspace=place.info)
    assert place.over.read_text() == text


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_strange_file_is_not_written(place: Place, kind: str) -> None:
    """A link, a folder and a pipe are refused at once, and nothing is written elsewhere."""
    other = place.over.parent / "other.yaml"
    other.write_text("acme: {model: other}\n")
    if kind == "link":
        place.over.symlink_to(other)
    elif kind == "folder":
        place.over.mkdir()
    else:
        os.mkfifo(place.over)
    with pytest.raises(BadFile):
        write_settings(place.load("acme: {steps: 20}\n"), {"acme.model": "tiny"}, workspace=place.info)
    assert other.read_text() == "acme: {model: other}\n"


def test_a_write_goes_to_the_workspaces_file(place: Place) -> None:
    """It counts at once, comments stay, the home's file is not touched, and no lock file lies in the workspace."""
    loaded = place.load("acme: {steps: 20}\n", "# ours\nacme:\n  model: small # why\n")
    revision = write_settings(loaded, {"acme.model": "tiny", "acme.inner.depth": 2}, workspace=place.info)
    assert revision == revision_of(loaded.at(place.info).file)
    assert loaded.of(Acme, place.info) == Acme(model="tiny", steps=20, inner=Inner(depth=2))
    assert place.over.read_text() == "# ours\nacme:\n  inner:\n    depth: 2\n  model: tiny # why\n"
    assert place.file.read_text() == "acme: {steps: 20}\n"
    assert [each.name for each in place.over.parent.iterdir()] == ["settings.yaml"]
    write_settings(loaded, {"acme.model": None, "acme.inner.depth": None}, workspace=place.info)
    assert loaded.of(Acme, place.info) == loaded.of(Acme)


def test_each_file_has_its_own_revision(place: Place) -> None:
    """A change of the home is no conflict for the workspace; a change of the workspace's own file is."""
    loaded = place.load("acme: {steps: 20}\n", "acme: {model: small}\n")
    seen = revision_of(loaded.at(place.info).file)
    write_settings(loaded, {"acme.steps": 21})
    write_settings(loaded, {"acme.model": "tiny"}, workspace=place.info, revision=seen)
    with pytest.raises(Conflict):
        write_settings(loaded, {"acme.model": "other"}, workspace=place.info, revision=seen)
    assert loaded.of(Acme, place.info) == Acme(model="tiny", steps=21)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda text: "<<" not in text)
VALUES = {
    "acme.model": NAMES,
    "acme.steps": st.integers(1, 100),
    "acme.ratio": st.floats(-1e9, 1e9, allow_nan=False),
    "acme.tags": st.lists(NAMES, max_size=3),
    "acme.inner": st.builds(
        lambda depth, width: {"depth": depth, "width": width}, st.integers(0, 9), st.integers(-5, 5)
    ),
}
STEP = st.tuples(st.booleans(), st.sampled_from(sorted(VALUES)), st.data())


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(sorted(VALUES))), max_size=12), st.data())
def test_the_files_are_layers(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, str]], data: st.DataObject
) -> None:
    """After any writes to both files all readers see the workspace's value, else the home's, else the default."""
    place = Place(tmp_path_factory.mktemp("layers"))
    loaded = place.load("# top\nacme: # a\n  steps: 5 # b\n", "# mine\nacme: {tags: [b]} # c\n")
    default: dict[str, object] = {field.key: field.default for field in loaded.at().fields.values()}
    layers: tuple[dict[str, object], dict[str, object]] = {"acme.steps": 5}, {"acme.tags": ("b",)}
    for is_over, key in steps:
        value = data.draw(st.none() | VALUES[key])
        write_settings(loaded, {key: value}, workspace=place.info if is_over else None)
        layers[is_over].pop(key, None)
        if value is not None:
            layers[is_over][key] = msgspec.convert(value, Inner if key == "acme.inner" else type(default[key]))
    again = place.load()
    for reader in (loaded, again):
        for workspace, expected in ((None, default | layers[0]), (place.info, default | layers[0] | layers[1])):
            assert {field.key: field.value for field in reader.at(workspace).fields.values()} == expected
    assert "# top\n" in place.file.read_text()
    assert "# mine\n" in place.over.read_text()
