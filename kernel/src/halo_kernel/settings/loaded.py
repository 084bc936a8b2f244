"""The settings file, YAML that people edit, and what it means: typed settings in layers.

These are the sections' defaults, the home's file, a workspace's file, and the environment.
"""

from __future__ import annotations

import copy
import json
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Meta, Struct, structs

from ..errors import BadFile, BadInput, NotFound
from ..log import logger
from ..manifests import suggest
from ..records import Secret, Section, WorkspaceInfo
from ..secrets import Redactor, read_variable, resolve_secret
from .sections import KERNEL_SECTIONS

S = TypeVar("S", bound=Struct)
FILE = "settings.yaml"
LARGEST = 262_144
_PLACEHOLDER = re.compile(r"<<([A-Za-z_][A-Za-z0-9_]*)>>")
_REFERENCE = re.compile(f"{_PLACEHOLDER.pattern}|keyring:.*")
_PASSWORDS: dict[type, dict[str, Any]] = {Secret: {"type": "string", "format": "password"}}


class SettingsFile:
    """One state of the file. A missing file is an empty one. Raises `BadFile` with path, line and key.

    `data` is what it means, without entries that hold nothing, and `root` its YAML node, None where there is none.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.data, self.root = _parsed(path, text)

    @classmethod
    def read(cls, path: Path, *, is_strange: bool = False) -> SettingsFile:
        """Read the file as it is now; one that `is_strange` may come from anybody: no link, no device, not large."""
        try:
            if is_strange and not (stat.S_ISREG((found := path.lstat()).st_mode) and found.st_size <= LARGEST):
                raise BadFile(f"{path} must be a file, not a link, of at most {LARGEST} bytes", path=str(path))
            return cls(path, path.read_bytes().decode())
        except FileNotFoundError:
            return cls(path, "")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", "it is not UTF-8 text")
            raise BadFile(f"{path} cannot be read: {why}", path=str(path), advice="mend or restore it") from error

    def line(self, key: str) -> int:
        """Return the line, from 1, of the deepest part of a dotted key that is in the file, or 0."""
        node, line = self.root, 0
        for part in key.split("."):
            entries = node.value if getattr(node, "id", "") == "mapping" else ()
            entry = next((each for each in entries if each[0].value == part), None)
            if entry is None:
                break
            node, line = entry[1], entry[0].start_mark.line + 1
        return line

    def bad(self, key: str, rule: str, advice: str = "") -> BadFile:
        """Return the error that what is at a dotted key breaks a rule."""
        line, path = self.line(key), str(self.path)
        return BadFile(f"{path}:{line}: {key} {rule}", path=path, line=line, field=key, advice=advice)


class SettingsFinding(Struct, frozen=True, kw_only=True):
    """A remark about a settings file that hinders nothing, at its `line`, 0 for none."""

    key: str
    line: int
    text: str


class SettingsField(Struct, frozen=True, kw_only=True):
    """A setting for lists and forms. `value` is as it counts now, a secret as its handle; `source` says where from.

    `written` is the text in the file if that is a reference, `<<NAME>>` or `keyring:…`; `command` is what alone sets it
    by the rules that there are for it, if any; `schema` is a JSON Schema.
    """

    key: str
    plugin: str
    default: Any
    value: Any
    source: str = "default"
    secret: bool
    restart: bool
    global_only: bool
    variables: Sequence[str]
    written: str = ""
    command: str = ""
    schema: Mapping[str, Any]


class Declared:
    """The sections of all plugins, with their defaults."""

    def __init__(self, sections: Iterable[tuple[str, Section]]) -> None:
        self.values: dict[str, Struct] = {}
        self.fields: dict[str, SettingsField] = {}
        for plugin, section in sections:
            try:
                self._add(plugin, section)
            except (TypeError, KeyError) as error:
                logger("settings").error("section not used", plugin=plugin, section=section.name, error=str(error))

    def _add(self, plugin: str, section: Section) -> None:
        default = section.type()  # a field without a default raises TypeError
        if section.name in self.values:
            raise TypeError("another plugin has one of that name")
        for info in structs.fields(default):
            meta = next(iter(getattr(info.type, "__metadata__", ())), Meta())
            schema = msgspec.json.schema(info.type, schema_hook=_PASSWORDS.__getitem__)
            marks, is_secret = meta.extra or {}, "'format': 'password'" in str(schema)
            key, value, aliases = f"{section.name}.{info.name}", getattr(default, info.name), marks.get("env", ())
            name = "HALO_" + re.sub(r"[^A-Z0-9]", "_", key.upper())
            self.fields[key] = SettingsField(
                key=key,
                plugin=plugin,
                default=value,
                value=value,
                secret=is_secret,
                restart=bool(marks.get("restart")),
                global_only=is_secret or section.global_only or bool(marks.get("global_only")),
                variables=(name, aliases) if isinstance(aliases, str) else (name, *aliases),
                command=marks.get("command", ""),
                schema=schema,
            )
        self.values[section.name] = default


class Reading:
    """What one state of a file means above the layer `base`: the values, and what was noticed on the way.

    With an environment it is the home's file, without one a workspace's, which may come from a stranger. Raises
    `BadFile` or `BadInput` that names the key or the variable, and the rule.
    """

    def __init__(self, file: SettingsFile, base: Declared | Reading, env: Mapping[str, str] | None) -> None:
        self.file = file
        self.base = base
        self.values: dict[str, Struct] = {}
        self.fields: dict[str, SettingsField] = {}
        self.secrets: list[Secret] = []
        self.findings: list[SettingsFinding] = []
        self._env = env
        for name, default in base.values.items():
            given = as_map(file.data.get(name, {}))
            if given is None:
                raise file.bad(name, "must hold fields, one a line below it")
            kinds = {info.name: info.type for info in structs.fields(default)}
            values = {each: self._value(f"{name}.{each}", kind, given.get(each)) for each, kind in kinds.items()}
            try:
                self.values[name] = type(default)(**values)
            except (TypeError, ValueError) as error:  # a rule over several fields, in __post_init__
                raise file.bad(name, str(error)) from error
        written = {f"{name}.{each}" for name in base.values for each in as_map(file.data.get(name)) or ()}
        known = {**self.values, **self.fields}
        for key in sorted({*file.data, *written} - known.keys()):
            self._note(key, f"there is no setting {key}{suggest(key, known)}")

    def after(self, file: SettingsFile) -> Reading:
        """Return what another state of the file means."""
        return Reading(file, self.base, self._env)

    def _value(self, key: str, kind: Any, raw: object) -> object:
        """Return what counts: a variable, else the file, else the layer below; a workspace has variables below."""
        field, is_home = self.base.fields[key], self._env is not None
        if raw is not None and field.global_only and not is_home:
            self._note(key, f"{key} counts for the whole server and is not taken from a workspace")
        is_open = is_home or not (field.global_only or field.source.startswith("environment"))
        found = {"file" if is_home else "workspace": raw if is_open else None}
        found |= {f"environment {name}": read_variable(self._env or {}, name) for name in reversed(field.variables)}
        for source, each in found.items():
            if each is not None:
                value, written = self._read(field, kind, source, each), str(each)
                written = written if _REFERENCE.fullmatch(written) else ""
                field = structs.replace(field, value=value, source=source, written=written)
        self.fields[key] = field
        return field.value

    def _read(self, field: SettingsField, kind: Any, source: str, raw: object) -> object:
        """Return a value as its type; text may stand for numbers and truth, for a list (commas, JSON) or a mapping."""
        raw = json.loads(_PLACEHOLDER.sub(partial(self._variable, field.key), json.dumps(raw)))
        try:
            if isinstance(raw, str) and ("$ref" in field.schema or field.schema.get("type") in ("array", "object")):
                is_json = raw.strip().startswith(("[", "{"))
                raw = json.loads(raw) if is_json else [part.strip() for part in raw.split(",") if part.strip()]
            return msgspec.convert(raw, kind, strict=False, dec_hook=partial(self._secret, field.key))
        except ValueError as error:
            choices = f" (one of {', '.join(field.schema['enum'])})" if "enum" in field.schema else ""
            rule, variable = f"is not valid: {error}{choices}", source.removeprefix("environment ")
            if variable != source:
                raise BadInput(f"{variable} {rule}", field=variable) from error
            raise self.file.bad(field.key, rule) from error

    def _variable(self, key: str, found: re.Match[str]) -> str:
        """Return, for JSON, what `<<NAME>>` stands for; itself where that is not set, or in a file of strangers."""
        given = read_variable(self._env or {}, found[1])
        if given is None:
            self._note(key, f"the environment variable {found[1]} is not set, or not given to workspaces")
        return found[0] if given is None else json.dumps(given)[1:-1]

    def _secret(self, key: str, kind: type, text: object) -> Secret:
        """Return the handle on a secret; one that the keyring does not give is empty, and remarked on."""
        if kind is not Secret or not isinstance(text, str):
            raise TypeError("Expected quoted text")
        try:
            text = resolve_secret(text, field=key)
        except BadInput as error:
            self._note(key, f"{error.message}; {error.advice}")
            text = ""
        self.secrets.append(Secret(text, key))
        return self.secrets[-1]

    def _note(self, key: str, text: str) -> None:
        self.findings.append(SettingsFinding(key=key, line=self.file.line(key), text=text))


class Settings:
    """Typed settings. The library `halo-lib-settings` changes them.

    Values are frozen. `redactor` knows every secret that is set.
    """

    def __init__(self, home: Path, sections: Iterable[tuple[str, Section]], env: Mapping[str, str]) -> None:
        self.home = home  # HALO_HOME.
        self.redactor = Redactor()
        self._declared = Declared(sections)
        self._env = dict(env)
        self._seen: dict[Path, tuple[object, Reading]] = {}
        self.at()

    def declare(self, sections: Iterable[tuple[str, Section]]) -> None:
        """Have these sections, with their plugin's name, and no others; say what is odd about the file.

        Raises `BadFile` (path, line, key, rule) for it, `BadInput` (the variable's name) for the environment; then all
        is as before.
        """
        former, self._declared = self._declared, Declared(sections)
        try:
            self._seen.clear()
            reading = self.at()
        except BadInput:
            self._declared = former
            raise
        for finding in reading.findings:
            logger("settings").warning(finding.text, key=finding.key, line=finding.line)

    def of(self, section: type[S], workspace: WorkspaceInfo | None = None) -> S:
        """Return the values of a section's struct as they are now: a file that was changed is read again.

        With `workspace`, its `.halo/settings.yaml` goes before the home's file, for what is not `global_only`. A file
        that is broken meanwhile leaves what counted before. Raises `NotFound` when no plugin provides the section.
        """
        for each in self.at(workspace).values.values():
            if isinstance(each, section):
                return each
        raise NotFound(f"no plugin that is loaded provides settings of the type {section.__name__}")

    def at(self, workspace: WorkspaceInfo | None = None) -> Reading:
        """Return all that counts now, for a workspace or for the whole server, and what is odd about it."""
        base: Declared | Reading = self.at() if workspace else self._declared
        env = None if workspace else self._env
        path = Path(workspace.path, ".halo", FILE) if workspace else self.home / "secrets" / FILE
        stamp, (seen, reading) = _stamp(path), self._seen.get(path, (None, None))
        if reading and seen == stamp and reading.base is base:
            return reading
        try:
            reading = Reading(SettingsFile.read(path, is_strange=env is None), base, env)
        except BadInput as error:
            if not (workspace or reading):
                raise
            logger("settings").warning("settings not read", error=error.message)
            former = reading if reading and reading.base is base else Reading(SettingsFile(path, ""), base, env)
            reading = copy.copy(former)
            reading.findings = [SettingsFinding(key=error.field, line=getattr(error, "line", 0), text=error.message)]
        self._seen[path] = stamp, reading
        if not workspace:
            self.redactor.learn("settings", reading.secrets)
        return reading


def _stamp(path: Path) -> object:
    """Return what changes with a file, as far as a look at its folder tells."""
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
    return ()


def load_kernel_settings(home: Path, env: Mapping[str, str]) -> Settings:
    """Read the kernel's own sections alone, for when plugins are not known yet; says nothing about the others."""
    return Settings(home, [("kernel", section) for section in KERNEL_SECTIONS], env)


def _parsed(path: Path, text: str) -> tuple[dict[str, object], Any]:
    """Return what a text means, and its nodes. Raises `BadFile`, without any value that is in the text."""
    if not text.strip():
        return {}, None
    from ruamel.yaml import YAML  # here, because most homes have no such file
    from ruamel.yaml.error import YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        data = _tidy(yaml.constructor.construct_document(root)) if root else None
    except (YAMLError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:  # of tags, too
        mark: Any = getattr(error, "problem_mark", None)
        line = min(mark.line + 1, len(text.splitlines())) if mark else 0
        problem = str(getattr(error, "problem", None) or error).partition(" with value ")[0].partition("\n")[0]
        message = f"{path}:{line}: not valid YAML: {problem}"
        raise BadFile(message, path=str(path), line=line, advice="correct that line") from error
    if getattr(root, "id", "mapping") != "mapping":
        raise BadFile(f"{path}:1: the file must hold sections, such as `server:`", path=str(path), line=1)
    return as_map(data) or {}, root


def _tidy(value: object) -> object:
    """Return a value as JSON holds it, without entries that hold nothing: those mean the default.

    Raises `ValueError`, also where it never ends: a few aliases of aliases stand for more than fits into memory.
    """
    parts = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).iterencode(value)
    text = "".join(islice(parts, LARGEST))
    text.encode()  # which refuses half characters
    return json.loads(text, object_hook=_kept)


def _kept(entries: dict[str, object]) -> dict[str, object] | None:
    kept = {key: each for key, each in entries.items() if each is not None}
    return kept if kept or not entries else None


def as_map(value: object) -> dict[str, object] | None:
    """Return a mapping with text keys as such, or None."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
