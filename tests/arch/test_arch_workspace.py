"""Every distribution is in every list that has to name it."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path
from typing import Any


def test_every_distribution_comes_from_the_clone(every: list[Any], workspace: dict[str, Any]) -> None:
    """The root's uv sources name every distribution of the workspace and no other."""
    assert set(workspace["tool"]["uv"]["sources"]) == {each.name for each in every}


def test_every_plugin_is_an_extra(every: list[Any], workspace: dict[str, Any]) -> None:
    """`halo-agent` has one extra a plugin, and `all` holds every one."""
    plugins = {each.folder.name for each in every if each.is_plugin}
    extras = workspace["project"]["optional-dependencies"]
    assert set(extras) == plugins | {"standard", "all"}
    assert extras["all"] == [f"halo-agent[{','.join(name for name in extras if name in plugins)}]"]


def test_the_standard_group_is_the_standard_extra(workspace: dict[str, Any]) -> None:
    """What a clone runs and what `halo-agent[standard]` installs are the same plugins."""
    extra = workspace["project"]["optional-dependencies"]["standard"][0]
    names = extra.removeprefix("halo-agent[").removesuffix("]").split(",")
    assert workspace["dependency-groups"]["standard"] == [f"halo-{name}" for name in names]


def test_every_distribution_has_a_tox_environment(every: list[Any], root: Path) -> None:
    """The default list of tox has one environment for each plugin and library."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(root / "tox.ini", encoding="utf-8")
    line = next(line for line in tox["tox"]["env_list"].split() if line.startswith("plugin-"))
    listed = set(line.removeprefix("plugin-{").removesuffix("}").split(","))
    assert listed == {each.folder.name for each in every if each.folder.parent.name == "plugins"}
    assert f"testenv:{line}" in tox.sections()


def test_import_contracts_name_every_distribution(every: list[Any], workspace: dict[str, Any]) -> None:
    """The import contracts hold for every package of the workspace."""
    linter = workspace["tool"]["importlinter"]
    plugins = {each.package for each in every if each.is_plugin}
    libraries = {each.package for each in every if each.is_library}
    contracts = {each["id"]: each for each in linter["contracts"]}
    assert set(linter["root_packages"]) == {each.package for each in every}
    assert set(contracts["kernel-blind"]["forbidden_modules"]) == plugins | libraries
    assert set(contracts["plugins-apart"]["modules"]) == plugins
    assert set(contracts["libraries-below"]["source_modules"]) == libraries
    assert set(contracts["libraries-below"]["forbidden_modules"]) == plugins
    assert set(contracts["plugins-public"]["source_modules"]) == plugins | libraries


def test_plugins_say_what_they_are(plugin: Any) -> None:
    """A plugin has one `halo.plugins` entry point, a `halo.toml` and the kernel's range in both places."""
    manifest = tomllib.loads((plugin.folder / "src" / plugin.package / "halo.toml").read_text(encoding="utf-8"))
    assert plugin.project["entry-points"]["halo.plugins"] == {plugin.name.removeprefix("halo-"): plugin.package}
    assert f"halo-kernel{manifest['kernel']}" in plugin.project["dependencies"]


def test_libraries_have_no_entry_point(every: list[Any]) -> None:
    """A library registers nothing."""
    assert [each.name for each in every if each.is_library and "entry-points" in each.project] == []


def test_every_distribution_is_typed_and_has_a_readme(distribution: Any) -> None:
    """Each distribution carries `py.typed` and a README that its metadata shows."""
    assert (distribution.folder / "src" / distribution.package / "py.typed").exists()
    assert distribution.project["readme"] == "README.md"
    assert (distribution.folder / "README.md").read_text(encoding="utf-8").startswith(f"# {distribution.name}\n")


def test_constraints_name_every_package(every: list[Any], workspace: dict[str, Any], root: Path) -> None:
    """constraints.txt pins, with hashes and without addresses, every package that anything here declares."""
    text = (root / "constraints.txt").read_text(encoding="utf-8")
    pinned = {line.partition("==")[0] for line in text.splitlines() if "==" in line}
    groups = [each for group in workspace["dependency-groups"].values() for each in group if isinstance(each, str)]
    declared = groups + [each for one in every for each in one.project["dependencies"]]
    names = {_name(each) for each in declared if not each.startswith("halo-")}
    assert names - pinned == set()
    assert "://" not in text
    assert text.count("==") <= text.count("--hash=sha256:")


def _name(requirement: str) -> str:
    for index, letter in enumerate(requirement):
        if not (letter.isalnum() or letter in "._-"):
            return requirement[:index].replace(".", "-").replace("_", "-").lower()
    return requirement.replace(".", "-").replace("_", "-").lower()
