"""Where distributions are looked for: in the environment, then in a home. Needs nothing but the standard library.

`HALO_HOME/plugins` is a site directory, after the set in it that `halo plugins` keeps, `plugins/<n>`. The file
`plugins/current` holds the numbers of the set that counts and of the former one; 0 is the empty set.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from importlib.metadata import Distribution
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TypedDict

from .errors import BadFile

FOLDER = "plugins"
POINTER = "current"


class Wanted(TypedDict, total=False):
    """Which plugins a kernel has: all that are installed, `only` or `without` some, none unless `discover`.

    What `only` names goes before the environment variable `HALO_PLUGINS`.
    `extra` are objects of this process by name. With `strict`, the first that is broken is raised as `PluginFailed`.
    """

    without: Collection[str]
    only: Collection[str] | None
    extra: Mapping[str, object]
    discover: bool
    strict: bool


def default_home(env: Mapping[str, str]) -> Path:
    """Return the home that `HALO_HOME` names, else `~/.halo`, as an absolute path."""
    named = env.get("HALO_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else Path.home() / ".halo"


def read_sets(home: Path) -> tuple[int, int]:
    """Return the numbers of the set of plugins that counts in a home and of the former one. Raises `BadFile`."""
    folder = home / FOLDER
    try:
        now, former = map(int, (folder / POINTER).read_text(encoding="ascii").split())
        if now == 0 or (folder / str(now)).is_dir():
            return now, former
        why = f"there is no set {now}"
    except (FileNotFoundError, NotADirectoryError):
        return 0, 0
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it must hold two numbers"
    said = f"{folder / POINTER} names no set of plugins ({why}), so that those that were installed here are missing"
    raise BadFile(said, path=str(folder / POINTER), advice="`halo plugins rollback` goes back to the newest set")


def add_sites(home: Path) -> BadFile | None:
    """Let this process import what is installed in a home, where the environment has nothing of that name.

    Returns what is wrong with the file that names the set that counts; there is none then.
    """
    folder, now, fault = str(home / FOLDER), 0, None
    try:
        now = read_sets(home)[0]
    except BadFile as error:
        fault = error
    others = [path for path in sys.path if path != folder and os.path.dirname(path) != folder]  # without a former set
    sys.path[:] = [*others, *filter(os.path.isdir, (f"{folder}/{now}", folder))]
    return fault


def find_distributions(group: str, path: Sequence[str]) -> Mapping[str, Distribution]:
    """Return the distributions with entry points of a group by normal name: of each the copy that comes first."""
    found: dict[str, Distribution] = {}
    for distribution in Distribution.discover(path=list(path)):
        with suppress(Exception):  # a folder that only looks like a distribution
            if group in (distribution.read_text("entry_points.txt") or ""):
                found.setdefault(normal_name(distribution.name), distribution)
    return found


def normal_name(distribution: str) -> str:
    """Return the one spelling of a distribution's name that compares (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def import_again(entry: str, suffix: str) -> object:
    """Return what an entry point names from a new import of its package, whose name then ends with `suffix`.

    A package that imports its own modules relatively has all of them anew. Raises what the import raises; then nothing
    of it stays.
    """
    module, _, attributes = entry.partition(":")
    package, _, rest = module.partition(".")
    importlib.invalidate_caches()
    found = next(filter(None, (finder.find_spec(package, None) for finder in sys.meta_path)), None)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    name, where = package + suffix, found.submodule_search_locations
    spec = spec_from_file_location(name, found.origin, submodule_search_locations=where)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules[name])
        named = importlib.import_module(f"{name}.{rest}") if rest else sys.modules[name]
        return reduce(getattr, filter(None, attributes.split(".")), named)
    except BaseException:
        forget_modules(name)
        raise


def forget_modules(package: str) -> None:
    """Let go of a package and its modules, so that nothing imports them again."""
    for each in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[each]
