"""Judging a plugin before anybody relies on it: what it declares, what it imports, whether it loads."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, json
from packaging.requirements import Requirement

from ..plugins import GROUP, Plugin
from ..records import Secret, Section
from ..sites import normal_name

_BOUNDS = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}


class Declared(Struct, frozen=True, kw_only=True):
    """A setting that a plugin declares, such as `web.port`. A number without a least or a most is not `bounded`."""

    name: str
    description: str
    kind: Literal["secret", "number", "text", "other"]
    bounded: bool


class Verdict(Struct, frozen=True, kw_only=True):
    """What was found. A plugin with `faults` does not work; its author mends `remarks`. `seconds`: its import's.

    `stays` is why it cannot be loaded anew, where that was tried.
    """

    name: str
    distribution: str
    version: str
    faults: tuple[str, ...]
    remarks: tuple[str, ...]
    hooks: tuple[str, ...]
    capabilities: tuple[str, ...]
    seconds: float
    settings: tuple[Declared, ...] = ()
    stays: str = ""


def judge(plugin: Plugin) -> Verdict:
    """Return what is wrong with a plugin of this process, after it was loaded."""
    owner = distribution(plugin.distribution) if plugin.entry else None
    faults = [] if plugin.state == "loaded" else [plugin.reason]
    settings: list[Declared] = []
    try:
        settings += _settings(plugin) if owner and not faults else ()
    except Exception as error:
        faults.append(f"provide_settings failed: {error!r}")
    return Verdict(
        name=plugin.name,
        distribution=plugin.distribution,
        version=plugin.version,
        faults=(*faults, *(_unmet(owner, set()) if owner else ())),
        remarks=(*plugin.unknown, *(_oddities(plugin, owner) if owner else ())),
        hooks=plugin.hooks,
        capabilities=plugin.capabilities,
        seconds=plugin.seconds,
        settings=tuple(settings),
    )


def _settings(plugin: Plugin) -> Iterator[Declared]:
    """Yield what a plugin declares by `provide_settings`, which has no argument."""
    if "provide_settings" in plugin.hooks:
        loaded = EntryPoint(plugin.name, plugin.entry, GROUP).load()
        sections: Iterable[Section] = loaded.provide_settings()
        for section in sections:
            known: dict[str, Any] = json.schema(section.type, schema_hook=_custom)["$defs"]
            for name, schema in known[section.type.__name__]["properties"].items():
                yield _declared(f"{section.name}.{name}", schema)


def _custom(kind: type) -> dict[str, Any]:
    return {"type": "string", "format": "secret"} if kind is Secret else {}


def _declared(name: str, schema: Mapping[str, Any]) -> Declared:
    parts: list[Mapping[str, Any]] = schema.get("anyOf", [schema])
    numbers = [each for each in parts if each.get("type") in ("integer", "number")]
    is_secret = any(each.get("format") == "secret" for each in parts)
    is_text = any(each.get("type") == "string" for each in parts)
    return Declared(
        name=name,
        description=schema.get("description", ""),
        kind="secret" if is_secret else "number" if numbers else "text" if is_text else "other",
        bounded=all(_BOUNDS & each.keys() for each in numbers),
    )


def _unmet(owner: Distribution, seen: set[str]) -> Iterator[str]:
    """Yield what a distribution, or one that it needs, asks for and does not find."""
    for wanted in map(Requirement, owner.requires or ()):
        name = normal_name(wanted.name)
        if name in seen or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        try:
            found = distribution(wanted.name)
        except PackageNotFoundError:
            yield f"{owner.name} needs {wanted}, which is not installed"
            continue
        if not wanted.specifier.contains(found.version, prereleases=True):
            yield f"{owner.name} {owner.version} needs {wanted}, and {found.version} is installed"
        yield from _unmet(found, seen)


def _oddities(plugin: Plugin, owner: Distribution) -> Iterator[str]:
    """Yield the imports of a plugin's modules that break a rule, and modules that are no Python, by file and line."""
    package = plugin.package
    spec = find_spec(package)
    declared = {normal_name(Requirement(each).name) for each in owner.requires or ()} | {normal_name(owner.name)}
    owners = packages_distributions()
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).rglob("*.py")):
            try:
                tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError) as error:
                yield f"{path}:{getattr(error, 'lineno', None) or 1}: {getattr(error, 'msg', error)}"
                continue
            for line, name in _imports(tree):
                top = name.partition(".")[0]
                sources = {normal_name(each) for each in (*owners.get(top, ()), top)}
                if top == package and plugin.reload == "live":
                    yield f"{path}:{line}: imports {name} by its full name; a plugin imports its own modules relatively"
                elif top == "halo_kernel" and name != top:
                    yield f"{path}:{line}: imports {name}; what is public are the names of halo_kernel itself"
                elif top not in (package, *sys.stdlib_module_names) and not sources & declared:
                    yield f"{path}:{line}: imports {top}, which {owner.name} does not declare"


def _imports(tree: ast.Module) -> Sequence[tuple[int, str]]:
    """Return line and dotted name of every absolute import of a module."""
    nodes = list(ast.walk(tree))
    names = [(node.lineno, each.name) for node in nodes if isinstance(node, ast.Import) for each in node.names]
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0]
    return sorted([*names, *((node.lineno, node.module or "") for node in froms)])
