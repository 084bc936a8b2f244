"""The project of a plugin: what its folder holds, and what was found when the plugin was tried out."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert
from packaging.utils import canonicalize_name

from halo_kernel import BadFile, BadInput, Verdict

from .module import Module, read_modules
from .scale import read_scale

GROUP = "halo.plugins"
NOTES = "quality.toml"
_FEWEST_WORDS = 4  # a reason is a sentence


_TESTS, _PAGES = ("tests",), ("docs",)  # where they are, unless it is said; neither has to be there


class Notes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `quality.toml` says: where tests and pages are, and the rules that are not for it, each with the reason."""

    tests: tuple[str, ...] = _TESTS
    pages: tuple[str, ...] = _PAGES
    exempt: dict[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project as rules look at it; `about` is the table `project` of pyproject.toml, `manifest` is halo.toml."""

    folder: Path
    about: Mapping[str, Any]
    manifest: Mapping[str, Any]
    package: Path
    modules: Sequence[Module]
    tests: Sequence[Module]
    readme: str
    pages: Sequence[str]
    exempt: Mapping[str, str]
    verdict: Verdict


def read_project(folder: Path, verdicts: Iterable[Verdict]) -> Project:
    """Return the project of a plugin. Raises `BadFile` for a file that is wrong, `BadInput` when it is no plugin's."""
    about = _table(folder / "pyproject.toml").get("project", {})
    entries = about.get("entry-points", {}).get(GROUP, {})
    package = str(next(iter(entries.values()), "")).partition(":")[0].partition(".")[0]
    places = [place for place in (folder / "src" / package, folder / package) if package and place.is_dir()]
    wanted = canonicalize_name(str(about.get("name", "")))
    verdict = next((each for each in verdicts if canonicalize_name(each.distribution) == wanted), None)
    if not places or verdict is None:
        advice = f"pyproject.toml names its package under {GROUP}, which lies in src"
        raise BadInput(f"{folder} is no project of a plugin", advice=advice)
    notes, manifest = _notes(folder / NOTES), places[0] / "halo.toml"
    readme = folder / str(about.get("readme", "README.md"))
    return Project(
        folder=folder,
        about=about,
        manifest=_table(manifest) if manifest.is_file() else {},
        package=places[0],
        modules=list(read_modules(places[0], name=f"{package}/")),
        tests=[each for place in notes.tests for each in read_modules(folder / place)],
        readme=readme.read_text(encoding="utf-8") if readme.is_file() else "",
        pages=[page for place in notes.pages for page in _pages(folder / place)],
        exempt=notes.exempt,
        verdict=verdict,
    )


def _table(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path}: {error}", path=str(path)) from error


def _notes(path: Path) -> Notes:
    """Return what a plugin says of itself. Raises `BadFile` for a path that leads nowhere, a rule that is none."""
    if not path.exists():
        return Notes()
    try:
        notes = convert(_table(path), Notes)
    except ValidationError as error:
        raise BadFile(f"{path}: {error}", path=str(path)) from error
    for place in {*notes.tests, *notes.pages} - {*_TESTS, *_PAGES}:
        if not (path.parent / place).exists():
            raise BadFile(f"{path}: there is no {place}", path=str(path))
    known = [rule.id for rule in read_scale()]
    for rule, reason in notes.exempt.items():
        if rule not in known:
            advice = f"the rules are {', '.join(known)}"
            raise BadFile(f"{path}: there is no rule {rule}", path=str(path), advice=advice)
        if len(reason.split()) < _FEWEST_WORDS:
            raise BadFile(f"{path}: say in a sentence why {rule} is not for this plugin", path=str(path))
    return notes


def _pages(place: Path) -> Iterator[str]:
    paths = [place] if place.is_file() else sorted(place.rglob("*.md"))
    yield from (path.read_text(encoding="utf-8") for path in paths)
