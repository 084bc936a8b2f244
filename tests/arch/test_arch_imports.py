"""Which third-party package may be imported where, and that whoever imports it declares it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import Any

# The modules that may import a package, by prefix; a package that is not named here is only held to be declared.
ONLY_IN = {
    "pluggy": ("halo_kernel.hookspecs", "halo_kernel.hooks", "halo_kernel.plugins"),
    "apsw": ("halo_kernel.sqlite",),
    "hypercorn": ("halo_kernel.server",),
    "croniter": ("halo_cron",),
    "boto3": ("halo_bedrock", "halo_agentcore", "halo_a2a"),
    "botocore": ("halo_bedrock", "halo_agentcore", "halo_a2a"),
}
LAZY_SDKS = ("aiohttp", "boto3", "botocore")

PRINT_VERSION = """
import sys
from halo_kernel.command import main
sys.argv = ["halo", "--version"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement(text: str) -> str:
    return normal(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0])


installed = cache(metadata.packages_distributions)


def providers(package: str) -> set[str]:
    """Name the installed distributions that a top-level module comes from."""
    return {normal(name) for name in installed().get(package, ())}


def third_party(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)


def kernel_needs() -> set[str]:
    """Name every distribution that the kernel needs, directly or not."""
    found: set[str] = set()
    waiting = ["halo-kernel"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        with suppress(metadata.PackageNotFoundError):  # needed on another platform or Python only
            waiting += [requirement(each) for each in metadata.requires(name) or () if "extra ==" not in each]
            found.add(name)
    return found


def test_fixed_packages_are_imported_where_they_belong(distribution: Any) -> None:
    """pluggy, apsw, hypercorn, croniter and boto3 are each imported in one place and nowhere else."""
    wrong = [
        f"{module.name} imports {name}"
        for module in distribution.modules
        for name in module.imports()
        for places in [ONLY_IN.get(name.partition(".")[0])]
        if places is not None and not module.name.startswith(places)
    ]
    assert wrong == []


def test_every_import_is_declared(distribution: Any) -> None:
    """A distribution declares every package that any of its modules imports, itself excepted."""
    declared = [*distribution.project.get("dependencies", ())]
    for extra in distribution.project.get("optional-dependencies", {}).values():
        declared += extra
    names = {requirement(each) for each in declared} | {distribution.name}
    imported = third_party(name for module in distribution.modules for name in module.imports())
    undeclared = sorted(package for package in imported if not names & (providers(package) | {normal(package)}))
    assert undeclared == []


def test_only_the_kernel_imports_its_modules(distribution: Any) -> None:
    """Plugins and libraries use the flat names of `halo_kernel`; its modules are private, and the kit is for tests."""
    wrong = [
        f"{module.name} imports {name}"
        for module in distribution.modules
        for name in module.imports()
        if name.startswith("halo_kernel.") and distribution.name != "halo-kernel"
    ]
    assert wrong == []


def test_a_plugin_imports_its_own_modules_relatively(plugin: Any) -> None:
    """A plugin names its own package nowhere, so that a second generation of it can be loaded beside the first."""
    wrong = [
        f"{module.name} imports {name}"
        for module in plugin.modules
        for name in module.imports()
        if name.partition(".")[0] == plugin.package
    ]
    assert wrong == []


def test_importing_a_plugin_loads_no_sdk(plugin: Any) -> None:
    """Heavy packages are imported at first use, never with the plugin."""
    script = f"import sys, {plugin.package}; print('\\n'.join(sys.modules))"
    env = {**os.environ, "PYTHONPATH": str(plugin.folder / "src")}  # an example is not installed here
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert set(loaded.stdout.split()) & set(LAZY_SDKS) == set()


def test_version_loads_no_sdk_and_no_plugin() -> None:
    """`halo --version` imports nothing but the standard library, the kernel and what the kernel needs."""
    found = subprocess.run([sys.executable, "-c", PRINT_VERSION], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert metadata.version("halo-kernel") in found.stdout
    allowed = kernel_needs()
    strange = [name for name in third_party(found.stderr.split()) if (known := providers(name)) and not known & allowed]
    assert strange == []
