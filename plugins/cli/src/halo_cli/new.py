"""`halo plugins new`: the project of a plugin, written from a template, whose tests pass as it is."""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from halo_kernel import BadInput, Conflict, NotFound

LONGEST = 32
"""Characters of a plugin's name: as many as the type of a channel may have."""
_TEMPLATES = files(__package__ or "halo_cli") / "templates"
_PEP_508 = re.compile(r"[a-z0-9]|[a-z0-9][a-z0-9._-]*[a-z0-9]", re.IGNORECASE)
_PLUGIN = re.compile(rf"[a-z][a-z0-9-]{{0,{LONGEST - 1}}}")
_PREFIX = "halo-"
_OURS = {"agent", "kernel", "node"}
_SUFFIX = ".txt"  # a template is no module of this package
_FIELD = re.compile(r"\{\{(\w+)\}\}")
_KERNEL = "halo-kernel>=0.1,<0.2"


def kinds() -> list[str]:
    """Return the kinds of plugins that there are templates of."""
    return list(_facts())


def write_project(name: str, *, kind: str, into: Path) -> Path:
    """Write the project of a plugin into a new folder of `into`, named as the distribution, and return that folder.

    All of it is there, or nothing. Raises `BadInput` for a name that no distribution, module or plugin can have,
    `Conflict` when the folder exists, `NotFound` when `into` does not.
    """
    fields = _fields(name, kind)
    target = into / fields["distribution"]
    if not into.is_dir():
        raise NotFound(f"there is no folder {into}", advice="make it, or name another one with --into")
    if target.exists() or target.is_symlink():
        raise Conflict(f"{target} exists, and stays as it is", advice="choose another name, or another folder")
    room = Path(tempfile.mkdtemp(dir=into, prefix=f".{target.name}-"))
    try:
        for source in ("common", kind):
            for path, text in _files(_TEMPLATES / source, Path()):
                place = room / target.name / str(path).replace("MODULE", fields["module"]).removesuffix(_SUFFIX)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(_filled(text, fields), encoding="utf-8")
        (room / target.name).rename(target)
    finally:
        shutil.rmtree(room)
    return target


def _facts() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads((_TEMPLATES / "kinds.toml").read_text(encoding="utf-8"))


def _fields(name: str, kind: str) -> dict[str, str]:
    """Return what templates ask for, by the name that a person gave and with or without `halo-` before it."""
    if not _PEP_508.fullmatch(name):
        rule = "a name has letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
        raise BadInput(f"{name!r} can be no distribution's name: {rule}", field="name")
    plugin = canonicalize_name(name).removeprefix(_PREFIX)
    if not _PLUGIN.fullmatch(plugin):
        rule = f"it begins with a letter and has at most {LONGEST} characters"
        raise BadInput(f"{plugin!r} can be no plugin's name: {rule}", field="name")
    if plugin in _OURS or plugin.startswith("lib-"):
        raise BadInput(f"{_PREFIX}{plugin} is a name of Halo's own", field="name", advice="choose another one")
    snake, facts = plugin.replace("-", "_"), _facts()[kind]
    if keyword.iskeyword(snake):
        raise BadInput(f"{plugin!r} is a word of Python, which no setting can be named after", field="name")
    return {
        "distribution": _PREFIX + plugin,
        "plugin": plugin,
        "module": f"halo_{snake}",
        "snake": snake,
        "SNAKE": snake.upper(),
        "summary": facts["summary"],
        "dependencies": ", ".join(f'"{each}"' for each in (_KERNEL, *facts["needs"])),
    }


def _files(folder: Traversable, inside: Path) -> Iterator[tuple[Path, str]]:
    """Yield every template of a folder with its path in there."""
    for each in folder.iterdir():
        if each.is_dir():
            yield from _files(each, inside / each.name)
        elif each.name.endswith(_SUFFIX):
            yield inside / each.name, each.read_text(encoding="utf-8")


def _filled(text: str, fields: Mapping[str, str]) -> str:
    """Return a template with its fields; one that is not known is a mistake of the template's and raises `KeyError`."""
    return _FIELD.sub(lambda found: fields[found[1]], text)
