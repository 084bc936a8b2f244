"""Rules about how a plugin is packed, declared and loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from .project import GROUP, Project

IMPORT_SECONDS = 0.5
_KERNEL = "halo-kernel"
_SECRET = re.compile(r"(?:^|[._])(?:token|key|secret|password|passphrase|credential)s?$")


def loads(project: Project) -> Iterator[str]:
    """It works at all."""
    yield from project.verdict.faults


def clean_imports(project: Project) -> Iterator[str]:
    """What its author has to mend."""
    yield from project.verdict.remarks


def import_budget(project: Project) -> Iterator[str]:
    """Its import is quick."""
    if (seconds := project.verdict.seconds) > IMPORT_SECONDS:
        yield f"its import took {seconds:.2f} s, over {IMPORT_SECONDS:g} s"


def kernel_range(project: Project) -> Iterator[str]:
    """Both places say the same."""
    said = str(project.manifest.get("kernel", ""))
    needs = [each.specifier for each in _needs(project) if canonicalize_name(each.name) == _KERNEL]
    try:
        wanted = SpecifierSet(said)
    except InvalidSpecifier:
        yield f"halo.toml: kernel = {said!r} is no range of versions"
        return
    if wanted not in needs or not said:
        yield f"halo.toml says kernel = {said!r}, and the dependencies {_KERNEL}{needs[0] if needs else ' nowhere'}"


def apart(project: Project) -> Iterator[str]:
    """It needs no other plugin."""
    for name in sorted(canonicalize_name(each.name) for each in _needs(project)):
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # which `loads` has told
        if found.entry_points.select(group=GROUP):
            yield f"it depends on {name}, which is a plugin"


def metadata(project: Project) -> Iterator[str]:
    """An index can show it."""
    about = project.about
    yield from (f"pyproject.toml has no {key}" for key in ("description", "requires-python") if not about.get(key))
    named = any(str(each).startswith("License ::") for each in about.get("classifiers", ()))
    if not (about.get("license") or about.get("license-files") or named):
        yield "pyproject.toml has no license"


def typed(project: Project) -> Iterator[str]:
    """Whoever imports it has its types."""
    if not (project.package / "py.typed").is_file():
        yield f"{project.package.name}/py.typed is not there"
    if "Typing :: Typed" not in project.about.get("classifiers", ()):
        yield "pyproject.toml has no classifier Typing :: Typed"


def described_settings(project: Project) -> Iterator[str]:
    """People know what they set."""
    yield from (f"{each.name} has no description" for each in project.verdict.settings if not each.description.strip())


def bounded_settings(project: Project) -> Iterator[str]:
    """A number that cannot be meant is refused."""
    yield from (f"{each.name} takes any number" for each in project.verdict.settings if not each.bounded)


def secrets(project: Project) -> Iterator[str]:
    """A secret is kept as one."""
    found = [each.name for each in project.verdict.settings if each.kind == "text" and _SECRET.search(each.name)]
    yield from (f"{name} is a plain text" for name in found)


def reload(project: Project) -> Iterator[str]:
    """A server can change it while it runs."""
    if project.verdict.stays:
        yield project.verdict.stays


def _needs(project: Project) -> list[Requirement]:
    return [Requirement(each) for each in project.about.get("dependencies", ())]
