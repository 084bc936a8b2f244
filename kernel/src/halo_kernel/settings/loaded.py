"""All settings of a home: what the plugins' sections hold now, and how they are changed."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from ..errors import BadFile, BadInput, Conflict, NotFound
from ..log import logger
from ..manifests import suggest
from ..records import Secret, Section
from ..secrets import ensure_home, locked, write_secret
from .document import SettingsFile, as_list, as_map, walk
from .sections import KERNEL_SECTIONS
from .values import Finding, Reader, allowed, is_secret, marks, metas, struct_of, variable_names

S = TypeVar("S", bound=Struct)
FILE = "settings.yaml"


@dataclass(frozen=True, kw_only=True)
class SettingsField:
    """A setting for lists and forms. `value` is as it counts now, a secret as its handle; `source` says where from."""

    key: str
    plugin: str
    description: str
    allowed: str
    default: object
    value: object
    source: str
    secret: bool
    restart: bool
    global_only: bool
    variables: Sequence[str]


class LoadedSettings:
    """The settings that count now. Values are frozen; `write` and `reload` put new ones in their place."""

    def __init__(
        self, home: Path, sections: Sequence[tuple[str, Section]], env: Mapping[str, str], *, file: SettingsFile
    ) -> None:
        self.home = home
        self._env = dict(env)
        self._lock = threading.Lock()
        self._sections, self._refused = _usable(sections)
        self._adopt(file, *self._read(file))

    def _read(self, file: SettingsFile) -> tuple[Reader, dict[type[Struct], Struct]]:
        reader = Reader(file, self._env)
        values = {section.type: reader.section(section.name, section.type) for _, section in self._sections}
        known = {section.name for _, section in self._sections}
        for name in sorted(file.data.keys() - known):
            text = f"unknown section {name}{suggest(name, known)}"
            reader.unknown.append(Finding(key=name, line=file.line((name,)), text=text))
        return reader, values

    def _adopt(self, file: SettingsFile, reader: Reader, values: dict[type[Struct], Struct]) -> None:
        self._file, self._reader, self._values = file, reader, values

    def of(self, section: type[S]) -> S:
        """Return the values of a section's struct. Raises `NotFound` when no plugin provides it, or it was refused."""
        found = self._values.get(section)
        if found is None:
            reason = self._refused.get(section, f"no plugin provides settings of the type {section.__name__}")
            raise NotFound(reason, advice="a plugin returns its sections from provide_settings")
        return cast("S", found)

    @property
    def revision(self) -> str:
        """A name for the state of the file that these settings were read from."""
        return self._file.revision

    @property
    def path(self) -> Path:
        """The file that people edit."""
        return self._file.path

    @property
    def unknown(self) -> Sequence[Finding]:
        """Keys in the file that no section has; they are kept."""
        return tuple(self._reader.unknown)

    @property
    def problems(self) -> Sequence[Finding]:
        """What else is odd: sections that were refused, variables that are not set."""
        refused = [Finding(key=kind.__name__, line=0, text=text) for kind, text in self._refused.items()]
        return (*refused, *self._reader.problems)

    @property
    def secrets(self) -> Sequence[Secret]:
        """Every secret that is set."""
        values = (_open(value) for value in self._values.values())
        return [each for value in values for each in walk(value) if isinstance(each, Secret)]

    def fields(self) -> Sequence[SettingsField]:
        """Return every setting with its rule, default, value and source."""
        return [
            each
            for plugin, section in self._sections
            for each in self._described(
                plugin, section.type, self._values[section.type], section.type(), (section.name,)
            )
        ]

    def _described(
        self, plugin: str, kind: type[Struct], values: Struct, defaults: Struct, keys: tuple[str, ...]
    ) -> Sequence[SettingsField]:
        found: list[SettingsField] = []
        for info in msgspec.structs.fields(kind):
            value, default, path = getattr(values, info.name), getattr(defaults, info.name), (*keys, info.encode_name)
            inner = struct_of(info.type)
            if inner and isinstance(value, Struct) and isinstance(default, Struct):
                found.extend(self._described(plugin, inner, value, default, path))
                continue
            extra = marks(info.type)
            found.append(
                SettingsField(
                    key=".".join(path),
                    plugin=plugin,
                    description=" ".join(each.description for each in metas(info.type) if each.description),
                    allowed=allowed(info.type),
                    default=default,
                    value=value,
                    source=self._reader.sources.get(path, "default"),
                    secret=is_secret(info.type),
                    restart=bool(extra.get("restart")),
                    global_only=bool(extra.get("global_only")),
                    variables=variable_names(info, path),
                )
            )
        return found

    def reload(self) -> None:
        """Read the file again. Raises `BadFile` and keeps what counted before."""
        with self._lock:
            file = SettingsFile.read(self.path)
            self._adopt(file, *self._read(file))

    def write(self, changes: Mapping[str, object], *, revision: str | None = None) -> str:
        """Set dotted keys (None goes back to the default), make them durable, and return the new revision.

        Comments and unknown keys stay. Raises `Conflict` when the file is no longer the one of `revision`, `BadInput`
        naming the key for a value that breaks a rule; each leaves the file as it was.
        """
        ensure_home(self.home)
        with self._lock, locked(self.path):
            file = SettingsFile.read(self.path)
            if revision is not None and revision != file.revision:
                raise Conflict("the settings were changed meanwhile", advice="read them again, then repeat the change")
            paths = {self._path(key): value for key, value in changes.items()}
            changed = file.changed(paths)
            try:
                reader, values = self._read(changed)
            except BadFile as error:
                rule = re.sub(r"^.*?:\d+: ", "", error.message)
                raise BadInput(rule, field=error.field, advice=error.advice) from error
            if changed.text != file.text:
                write_secret(self.path, changed.text)
            self._adopt(changed, reader, values)
            return changed.revision

    def _path(self, key: str) -> tuple[str, ...]:
        """Return a dotted key's parts, once a section has that field."""
        keys = tuple(key.split("."))
        kinds = {section.name: section.type for _, section in self._sections}
        kind: type[Struct] | None = kinds.get(keys[0])
        known = {section.name for _, section in self._sections}
        for at, part in enumerate(keys):
            if at:
                fields = {each.encode_name: each.type for each in msgspec.structs.fields(kind)} if kind else {}
                known = set(fields)
                if kind is None:
                    break
                kind = struct_of(fields[part]) if part in fields else None
            if part not in known:
                raise BadInput(f"there is no setting {key}{suggest(part, known)}", field=key)
        if len(keys) < 2:
            raise BadInput(f"{key} is a section, not a setting", field=key)
        return keys


def _usable(sections: Sequence[tuple[str, Section]]) -> tuple[Sequence[tuple[str, Section]], dict[type[Struct], str]]:
    """Return the sections that can be read, and why others cannot: no default, or a name that two plugins claim."""
    refused: dict[type[Struct], str] = {}
    for plugin, section in sections:
        rivals = sorted({other for other, each in sections if each.name == section.name and each.type != section.type})
        if rivals:
            names = " and ".join(sorted({plugin, *rivals}))
            refused[section.type] = f"the settings section {section.name} is claimed by {names}"
        try:
            section.type()
        except TypeError as error:
            refused[section.type] = f"every field of the settings section {section.name} needs a default: {error}"
    return [(plugin, section) for plugin, section in sections if section.type not in refused], refused


def _open(value: object) -> object:
    """Return a struct's values as mappings and lists, so that they can be walked through."""
    if isinstance(value, Struct):
        return _open(msgspec.structs.asdict(value))
    if (entries := as_map(value)) is not None:
        return {key: _open(each) for key, each in entries.items()}
    items = as_list(value)
    return value if items is None else [_open(each) for each in items]


def load_kernel_settings(home: Path, env: Mapping[str, str]) -> LoadedSettings:
    """Read the kernel's own sections alone, for when plugins are not known yet; says nothing about the others."""
    sections = [("kernel", section) for section in KERNEL_SECTIONS]
    return LoadedSettings(home, sections, env, file=SettingsFile.read(home / "secrets" / FILE))


def load_settings(home: Path, sections: Sequence[tuple[str, Section]], env: Mapping[str, str]) -> LoadedSettings:
    """Read `<home>/secrets/settings.yaml` and the environment into typed sections, given with their plugin's name.

    Raises `BadFile` (path, line, key, rule) for the file, `BadInput` (the variable's name) for the environment.
    """
    loaded = LoadedSettings(home, sections, env, file=SettingsFile.read(home / "secrets" / FILE))
    log = logger("settings")
    for finding in (*loaded.unknown, *loaded.problems):
        log.warning(finding.text, key=finding.key, line=finding.line)
    return loaded
