"""Whether a plugin keeps the rules: what `halo plugins check` finds, and what only its author's tests look at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from types import ModuleType
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ..errors import BadFile, NotFound
from ..manifests import read_manifest
from ..plugins import GROUP, Plugins
from .checks import judge

Rule = Literal["fault", "remark", "kernel-range", "other-plugin", "import-time"]
IMPORT_SECONDS = 0.5
_KERNEL = "halo-kernel"
_MEASURE = """
import sys, time
import halo_kernel.runtime
begin = time.process_time()
__import__(sys.argv[1])
print(time.process_time() - begin)
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A rule that a plugin breaks, and how."""

    rule: Rule
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


def assert_plugin_ok(plugin: str | ModuleType, *, import_seconds: float = IMPORT_SECONDS) -> None:
    """Raise `AssertionError` with every finding of `check_plugin`, one a line."""
    found = check_plugin(plugin, import_seconds=import_seconds)
    if found:
        raise AssertionError("\n".join(map(str, found)))


def check_plugin(plugin: str | ModuleType, *, import_seconds: float = IMPORT_SECONDS) -> list[Finding]:
    """Return what is wrong with an installed plugin, given by module, by the module's name or by the distribution's.

    `fault`: it does not work: `halo.toml`, the range of kernels, its import, a hook's colour or arguments, a name or a
    path that another plugin claims, something it needs that is not there. `remark`: an unknown key, an import that is
    undeclared, private, or of its own modules by their full name. `kernel-range`: its dependencies and `halo.toml` name
    different kernels. `other-plugin`: it depends on another plugin. `import-time`: its import takes more than
    `import_seconds` of a processor.
    """
    claim = _claim(plugin.__name__ if isinstance(plugin, ModuleType) else plugin)
    if claim is None:
        message = f"no installed distribution has {plugin} under {GROUP}: install it, such as with pip install -e ."
        return [Finding(rule="fault", message=message)]
    entry, distribution = claim
    found = [*_judged(entry), *_kernel_range(entry, distribution), *_other_plugins(distribution)]
    return found if any(each.rule == "fault" for each in found) else [*found, *_import_time(entry, import_seconds)]


def _claim(name: str) -> tuple[EntryPoint, Distribution] | None:
    """Return the entry point of a plugin and its distribution."""
    for distribution in distributions():
        for entry in distribution.entry_points.select(group=GROUP):
            project = canonicalize_name(distribution.metadata["Name"] or "")
            if name in (entry.module, entry.module.partition(".")[0]) or canonicalize_name(name) == project:
                return entry, distribution
    return None


def _judged(entry: EntryPoint) -> Iterator[Finding]:
    plugins = Plugins()
    plugins.load(only={entry.name})
    for row in plugins.list():
        if row.name == entry.name:
            verdict = judge(row)
            yield from (Finding(rule="fault", message=each) for each in verdict.faults)
            yield from (Finding(rule="remark", message=each) for each in verdict.remarks)


def _kernel_range(entry: EntryPoint, distribution: Distribution) -> Iterator[Finding]:
    try:
        wanted = read_manifest(entry.module).kernel
    except (BadFile, NotFound):
        return  # which is a fault already
    needs = [each.specifier for each in _needs(distribution) if canonicalize_name(each.name) == _KERNEL]
    if SpecifierSet(wanted) not in needs:
        said = f"{_KERNEL}{needs[0]}" if needs else f"no {_KERNEL}"
        yield Finding(rule="kernel-range", message=f'halo.toml says kernel = "{wanted}", its dependencies say {said}')


def _other_plugins(distribution: Distribution) -> Iterator[Finding]:
    plugins = {canonicalize_name(each.metadata["Name"] or "") for each in distributions() if _is_plugin(each)}
    for name in sorted({canonicalize_name(each.name) for each in _needs(distribution)} & plugins):
        advice = "two plugins talk through a record, a hook or Host.lookup"
        yield Finding(rule="other-plugin", message=f"it depends on {name}, which is a plugin: {advice}")


def _is_plugin(distribution: Distribution) -> bool:
    return bool(distribution.entry_points.select(group=GROUP))


def _needs(distribution: Distribution) -> list[Requirement]:
    return [Requirement(each) for each in distribution.requires or ()]


def _import_time(entry: EntryPoint, limit: float) -> Iterator[Finding]:
    """Import it in a new interpreter that has the kernel already; waiting is not counted."""
    command = [sys.executable, "-c", _MEASURE, entry.module]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        yield Finding(rule="fault", message=f"its import fails in an interpreter of its own: {last}")
    elif (seconds := float(done.stdout.split()[-1])) > limit:
        advice = "import heavy packages at first use"
        message = f"its import takes {seconds:.2f} s of a processor, over {limit:g} s: {advice}"
        yield Finding(rule="import-time", message=message)
