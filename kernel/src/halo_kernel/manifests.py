"""`halo.toml`, a plugin's static metadata beside its `__init__.py`, read without importing the plugin."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from importlib.abc import FileLoader
from importlib.util import find_spec
from typing import Literal, cast

import msgspec
from msgspec import Struct
from packaging.specifiers import SpecifierSet

from .errors import BadFile, NotFound

NAME = "halo.toml"


class Manifest(Struct, frozen=True, kw_only=True):
    """What a plugin says about itself.

    `kernel`: the PEP 440 range of kernels it works with. `provides`: kinds of things it adds. `capabilities`: what it
    may reach. `prefixes`, `pages`: the paths it claims, the first page being its own. `seeds`: folders of files that it
    lays out. `optional_hooks`: hooks it implements that this kernel may not have.
    """

    kernel: str
    provides: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()
    optional_hooks: tuple[str, ...] = ()
    isolation: Literal["none", "process"] = "none"
    reload: Literal["live", "restart"] = "live"
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        SpecifierSet(self.kernel)

    def allows(self, version: str) -> bool:
        """Tell whether a kernel of this version is in the range; its pre-releases are."""
        return SpecifierSet(self.kernel).contains(version, prereleases=True)


def read_manifest(module: str) -> Manifest:
    """Return the metadata of the package that holds `module`.

    Raises `NotFound` when the package or its `halo.toml` is missing, `BadFile` with path, line and key.
    """
    path, raw = _located(module.partition(".")[0])
    known = {*Manifest.__struct_fields__} - {"unknown"}
    try:
        table = tomllib.loads(text := raw.decode())
        strange = sorted(table.keys() - known)
        unknown = [f"{path}:{_line(text, key)}: unknown key {key}{suggest(key, known)}" for key in strange]
        return msgspec.convert({**table, "unknown": unknown}, Manifest)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(f"{path}: {error}", path=path) from error
    except msgspec.ValidationError as error:
        found = re.search(r"field `(\w+)`|\$\.(\w+)", str(error))
        key = found[1] or found[2] if found else "kernel"
        line = _line(raw.decode(), key)
        raise BadFile(f"{path}:{line}: {key}: {error}", path=path, line=line, field=key) from error


def _located(package: str) -> tuple[str, bytes]:
    """Return the path and the bytes of a package's `halo.toml`."""
    spec = find_spec(package)
    if spec is None:
        raise NotFound(f"its package {package} is not there", advice="install it again")
    for folder in spec.submodule_search_locations or [os.path.dirname(spec.origin or "")]:
        path = os.path.join(folder, NAME)
        with suppress(OSError, AttributeError):  # the loader may be a zip's or a frozen program's
            return path, cast("FileLoader", spec.loader).get_data(path)
    advice = f'its author adds {NAME} with: kernel = ">=0.1,<0.2"'
    raise NotFound(f"{package} has no {NAME} beside its __init__.py", advice=advice)


def _line(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf"""\s*\[*["']?{re.escape(key)}["']?\s*[\]=.]""", line):
            return number
    return 1


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean …?` when a known name is close, else nothing."""
    import difflib  # here, because nearly nobody mistypes

    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]}?" if close else ""
