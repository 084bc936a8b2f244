"""Typed values out of the file and the environment: environment over file over default."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct
from msgspec.structs import FieldInfo

from ..errors import BadFile, BadInput
from ..manifests import suggest
from ..records import Secret, Section
from ..secrets import read_variable
from .document import Keys, SettingsFile, as_map
from .vault import resolve

Names = Sequence[str]
Env = Mapping[str, str]
Sections = Sequence[tuple[str, Section]]
_PLACEHOLDER = re.compile(r"<<([A-Za-z_][A-Za-z0-9_]*)>>")
REFERENCE = re.compile(f"{_PLACEHOLDER.pattern}|keyring:.*")
_BOUNDS = {
    "ge": ">=",
    "gt": ">",
    "le": "<=",
    "lt": "<",
    "min_length": "of length >=",
    "max_length": "of length <=",
    "pattern": "like",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A remark about the settings file that hinders nothing."""

    key: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True)
class SettingsField:
    """A setting for lists and forms. `value` is as it counts now, a secret as its handle; `source` says where from.

    `written` is the text in the file if that is a reference, `<<NAME>>` or `keyring:…`. `schema` is the value's type,
    and over HTTP its JSON Schema.
    """

    key: str
    plugin: str
    description: str
    allowed: str
    default: Any
    value: Any
    source: str
    secret: bool
    restart: bool
    global_only: bool
    variables: Sequence[str]
    written: str
    schema: Any


class Reading:
    """What one state of the file and the environment means: the values, and what was noticed on the way.

    With `base` the file is a workspace's, which says what differs from the home's. Raises `BadFile` or `BadInput` that
    names the key or the variable, and what it may hold.
    """

    def __init__(self, file: SettingsFile, env: Env, sections: Sections, base: Reading | None = None) -> None:
        self.file = file
        self.base = base
        self._fields = {field.key: field for field in base.fields} if base else {}
        self.values: dict[type[Struct], Struct] = {}
        self.fields: list[SettingsField] = []
        self.secrets: list[Secret] = []
        self.findings: list[Finding] = []
        self._env = env
        known = {section.name for _, section in sections}
        for name in sorted(file.data.keys() - known):
            self._note((name,), f"unknown section {name}{suggest(name, known)}")
        for plugin, section in sections:
            raw = file.data.get(section.name)
            self._note_unknown(raw, section.type, (section.name,))
            self._plugin, self._is_global = plugin, section.global_only
            defaults = base.values[section.type] if base else section.type()
            self.values[section.type] = self._struct(defaults, raw, (section.name,))

    def _struct(self, defaults: Struct, raw: object, keys: Keys) -> Struct:
        given = {} if raw is None else as_map(raw)
        if given is None:
            raise self._bad(keys, "must hold fields, one a line below it")
        values = {
            info.name: self._field(info, getattr(defaults, info.name), given.get(info.encode_name), keys)
            for info in msgspec.structs.fields(defaults)
        }
        try:
            return type(defaults)(**values)
        except (TypeError, ValueError) as error:  # a rule over several fields, in __post_init__
            raise self._bad(keys, str(error)) from error

    def _field(self, info: FieldInfo, default: object, raw: object, parents: Keys) -> object:
        wanted, keys = info.type, (*parents, info.encode_name)
        if isinstance(default, Struct) and struct_of(wanted):
            return self._struct(default, raw, keys)
        known = self._fields.get(".".join(keys))
        field = self._over(known, wanted, keys, raw) if known else self._declared(wanted, keys, raw, default)
        self.fields.append(field)
        return field.value

    def _declared(self, wanted: object, keys: Keys, raw: object, default: object) -> SettingsField:
        meta, secret = _meta(wanted), is_secret(wanted)
        marks = meta.extra or {}
        variables = _variables(marks, keys)
        source, value = self._found(wanted, keys, variables, raw, default)
        return SettingsField(
            key=".".join(keys),
            plugin=self._plugin,
            description=meta.description or "",
            allowed=allowed(wanted),
            default=default,
            value=value,
            source=source,
            secret=secret,
            restart=bool(marks.get("restart")),
            global_only=secret or self._is_global or bool(marks.get("global_only")),
            variables=variables,
            written=raw if isinstance(raw, str) and source == "file" and REFERENCE.fullmatch(raw) else "",
            schema=wanted,
        )

    def _over(self, field: SettingsField, wanted: object, keys: Keys, raw: object) -> SettingsField:
        """Return a setting with what the workspace says; secrets and such it cannot say, and variables go before."""
        if raw is not None and field.global_only:
            self._note(keys, f"{field.key} counts for the whole server and is not taken from a workspace")
        if raw is None or field.global_only or field.source.startswith("environment"):
            return field
        return replace(field, value=self._checked(self._filled(raw, keys), wanted, keys), source="workspace")

    def _found(self, wanted: object, keys: Keys, names: Names, raw: object, default: object) -> tuple[str, object]:
        """Return where a setting's value comes from, and the value."""
        texts = ((name, read_variable(self._env, name)) for name in names)
        variable, text = next(((name, text) for name, text in texts if text is not None), ("", None))
        if text is None:
            filled = self._filled(raw, keys)
            return ("default", default) if raw is None else ("file", self._checked(filled, wanted, keys))
        try:
            return f"environment {variable}", self._converted(text, wanted, keys)
        except ValueError as error:
            raise BadInput(f"{variable} must be {allowed(wanted)}", field=variable) from error

    def _checked(self, value: object, wanted: object, keys: Keys) -> object:
        try:
            return self._converted(value, wanted, keys)
        except ValueError as error:
            at, kind, found = _culprit(value, wanted, keys)
            raise self._bad(at, f"{'is missing: it ' if found is UNSET else ''}must be {allowed(kind)}") from error

    def _converted(self, raw: object, wanted: object, keys: Keys) -> object:
        """Return a value as its type; text may stand for numbers and truth, for a list (commas, JSON) or a mapping."""
        bare = bare_type(wanted)
        if isinstance(raw, str) and (get_origin(bare) in (list, tuple, dict) or struct_of(bare)):
            is_json = raw.strip().startswith(("[", "{"))
            raw = json.loads(raw) if is_json else [item.strip() for item in raw.split(",") if item.strip()]

        return _convert(raw, wanted, lambda text: self._secret(text, keys))

    def _secret(self, text: str, keys: Keys) -> Secret:
        """Return the handle on a secret; one that the keyring does not give is empty, and remarked on."""
        name = ".".join(keys)
        try:
            text = resolve(text, field=name)
        except BadInput as error:
            self._note(keys, f"{error.message}; {error.advice}")
            text = ""
        self.secrets.append(Secret(text, name))
        return self.secrets[-1]

    def _filled(self, raw: object, keys: Keys) -> object:
        """Return a value with `<<NAME>>` replaced by variables; one that is not set stays, and is remarked on.

        So does any in a workspace's file, which may come from a stranger.
        """
        if isinstance(raw, dict):
            entries = cast("dict[str, object]", raw).items()
            return {key: self._filled(each, (*keys, key)) for key, each in entries}
        if isinstance(raw, list):
            return [self._filled(each, (*keys, str(at))) for at, each in enumerate(cast("list[object]", raw))]

        def value(found: re.Match[str]) -> str:
            given = None if self.base else read_variable(self._env, found[1])
            if given is None:
                why = "not filled in for a workspace" if self.base else "not set"
                self._note(keys, f"the environment variable {found[1]} is {why}")
            return found[0] if given is None else given

        return _PLACEHOLDER.sub(value, raw) if isinstance(raw, str) else raw

    def _note_unknown(self, raw: object, wanted: object, keys: Keys) -> None:
        known = [key for key, _, _ in _parts(raw, wanted)]
        for name in (as_map(raw) or {}).keys() - known if struct_of(wanted) else ():
            self._note((*keys, name), f"unknown key {'.'.join((*keys, name))}")
        for key, inner, kind in _parts(raw, wanted):
            self._note_unknown(inner, kind, (*keys, key))

    def _note(self, keys: Keys, text: str) -> None:
        self.findings.append(Finding(key=".".join(keys), line=self.file.line(keys), text=text))

    def _bad(self, keys: Keys, rule: str) -> BadFile:
        path, dotted, line = str(self.file.path), ".".join(keys), self.file.line(keys)
        return BadFile(f"{path}:{line}: {dotted} {rule}", path=path, line=line, field=dotted)


def _convert(raw: object, wanted: object, secret: Callable[[str], Secret] = Secret) -> object:
    def decode(kind: type, value: object) -> object:
        if kind is Secret and isinstance(value, str):
            return secret(value)
        raise TypeError(f"not a {kind.__name__}")

    return msgspec.convert(raw, cast("Any", wanted), strict=False, dec_hook=decode)


def _culprit(raw: object, wanted: object, keys: Keys) -> tuple[Keys, object, object]:
    """Return the deepest part of a value that is wrong by itself: its keys, its type, and what it holds."""
    for key, inner, kind in _parts(raw, wanted):
        try:
            _convert(inner, kind)
        except ValueError:
            return _culprit(inner, kind, (*keys, key))
    return keys, wanted, raw


def _parts(raw: object, wanted: object) -> Sequence[tuple[str, object, object]]:
    """Return the parts of a mapping or list with their types; what a struct needs and has not is UNSET."""
    bare = bare_type(wanted)
    entries, inner = as_map(raw), struct_of(bare)
    if entries is not None and inner:
        fields = [each for each in msgspec.structs.fields(inner) if each.required or each.encode_name in entries]
        return [(each.encode_name, entries.get(each.encode_name, UNSET), each.type) for each in fields]
    if entries is not None and get_origin(bare) is dict:
        return [(key, each, get_args(bare)[1]) for key, each in entries.items()]
    if isinstance(raw, list) and get_origin(bare) in (list, tuple):
        return [(str(at), each, get_args(bare)[0]) for at, each in enumerate(cast("list[object]", raw))]
    return []


def _variables(marks: Mapping[str, object], keys: Keys) -> Sequence[str]:
    """Return the environment variables of a field, the one that comes first having the last word."""
    alias = marks.get("env", ())
    aliases = (alias,) if isinstance(alias, str) else cast("Sequence[str]", alias)
    return tuple(dict.fromkeys(("HALO_" + re.sub(r"[^A-Z0-9]", "_", "_".join(keys).upper()), *aliases)))


def _meta(wanted: object) -> Meta:
    annotations = get_args(wanted)[1:] if get_origin(wanted) is Annotated else ()
    return next((each for each in annotations if isinstance(each, Meta)), Meta())


def bare_type(wanted: object) -> object:
    """Return a type without annotations and without `| None`."""
    while get_origin(wanted) is Annotated:
        wanted = get_args(wanted)[0]
    rest = [each for each in get_args(wanted) if each is not NoneType]
    return bare_type(rest[0]) if get_origin(wanted) in (Union, UnionType) and len(rest) == 1 else wanted


def struct_of(wanted: object) -> type[Struct] | None:
    """Return the struct that a field holds, if it holds one."""
    bare = bare_type(wanted)
    return bare if isinstance(bare, type) and issubclass(bare, Struct) else None


def is_secret(wanted: object, around: Sequence[object] = ()) -> bool:
    """Tell whether a type is a secret's, or holds secrets; `around` are the types that it lies in."""
    bare, inner = bare_type(wanted), struct_of(wanted)
    parts = [each.type for each in msgspec.structs.fields(inner)] if inner else get_args(bare)
    return bare is Secret or (bare not in around and any(is_secret(each, (*around, bare)) for each in parts))


def secret_texts(raw: object, wanted: object, keys: Keys) -> Iterator[tuple[Keys, str]]:
    """Yield each secret in a value as it is written, with its keys."""
    if isinstance(raw, str) and bare_type(wanted) is Secret:
        yield keys, raw
    for key, inner, kind in _parts(raw, wanted):
        yield from secret_texts(inner, kind, (*keys, key))


def allowed(wanted: object) -> str:
    """Return in words what a field of this type may hold."""
    bare = bare_type(wanted)
    origin, inner = get_origin(bare), get_args(bare)
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin in (Union, UnionType):
        return " or ".join(allowed(each) for each in inner)
    if origin in (list, tuple):
        return f"a list of {allowed(inner[0])}"
    if origin is dict:
        return f"a mapping to {allowed(inner[1])}"
    meta = _meta(wanted)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Secret: "quoted text"}
    bounds = [f"{sign} {value}" for name, sign in _BOUNDS.items() if (value := getattr(meta, name)) is not None]
    return " ".join((words.get(cast("type", bare), "a mapping"), " and ".join(bounds))).strip()
