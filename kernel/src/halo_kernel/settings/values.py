"""Typed values out of the file and the environment: environment over file over default."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from ..errors import BadFile, BadInput
from ..records import Secret
from ..secrets import read_variable
from .document import Keys, SettingsFile, as_list, as_map

_PLACEHOLDER = re.compile(r"<<([A-Za-z_][A-Za-z0-9_]*)>>")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A remark about the settings file that hinders nothing."""

    key: str
    line: int
    text: str


@dataclass
class Reader:
    """Reads sections; collects unknown keys, unset placeholders and where each value came from on the way."""

    file: SettingsFile
    env: Mapping[str, str]
    unknown: list[Finding] = field(default_factory=list[Finding])
    problems: list[Finding] = field(default_factory=list[Finding])
    sources: dict[Keys, str] = field(default_factory=dict[Keys, str])

    def section(self, name: str, section: type[Struct]) -> Struct:
        """Return a section's values. Raises `BadFile` or `BadInput` naming the key and what it may hold."""
        raw = self.file.data.get(name)
        return self._struct(section, {} if raw is None else raw, (name,), section())

    def _struct(self, wanted: type[Struct], raw: object, keys: Keys, defaults: Struct | None) -> Struct:
        given = as_map(raw)
        if given is None:
            raise self._bad(keys, "must hold fields, one a line below it")
        fields = {each.encode_name: each for each in msgspec.structs.fields(wanted)}
        for name in given.keys() - fields.keys():
            dotted = ".".join((*keys, name))
            self.unknown.append(Finding(key=dotted, line=self.file.line((*keys, name)), text=f"unknown key {dotted}"))
        values = {
            each.name: self._field(each, given.get(name), (*keys, name), defaults) for name, each in fields.items()
        }
        try:
            return wanted(**values)
        except (TypeError, ValueError) as error:  # a rule over several fields, in __post_init__
            raise self._bad(keys, str(error)) from error

    def _field(self, info: FieldInfo, raw: object, keys: Keys, defaults: Struct | None) -> object:
        for name in variable_names(info, keys):
            text = read_variable(self.env, name)
            if text is not None:
                self.sources[keys] = f"environment {name}"
                return self._from_text(text, info.type, keys, name)
        inner = struct_of(info.type)
        default = getattr(defaults, info.name) if defaults else info.default
        if inner and isinstance(default, Struct):
            return self._struct(inner, {} if raw is None else raw, keys, default)
        if raw is not None:
            self.sources[keys] = "file"
            return self._value(raw, info.type, keys)
        if defaults is None and info.required:
            raise self._bad(keys, f"is missing: it must be {allowed(info.type)}")
        return default if defaults or info.default_factory is msgspec.NODEFAULT else info.default_factory()

    def _value(self, raw: object, wanted: object, keys: Keys) -> object:
        """Return a value of the file as its type, going down by hand so that an error can name its own line."""
        bare = bare_type(wanted)
        inner = struct_of(wanted)
        entries, items = as_map(raw), as_list(raw)
        if inner and entries is not None:
            return self._struct(inner, entries, keys, None)
        if get_origin(bare) is dict and entries is not None:
            values = {key: self._value(each, get_args(bare)[1], (*keys, key)) for key, each in entries.items()}
            return self._converted(values, wanted, keys)
        if get_origin(bare) in (list, tuple) and items is not None:
            item_type = get_args(bare)[0]
            found = [self._value(each, item_type, (*keys, str(at))) for at, each in enumerate(items)]
            return self._converted(found, wanted, keys)
        if isinstance(raw, str) and (text := self._expanded(raw, keys)) != raw:
            return self._from_text(text, wanted, keys, "")
        return self._converted(raw, wanted, keys)

    def _expanded(self, text: str, keys: Keys) -> str:
        """Return `text` with `<<NAME>>` replaced by variables; one that is not set stays, and is remarked on."""

        def value(found: re.Match[str]) -> str:
            given = read_variable(self.env, found[1])
            if given is None:
                why = f"the environment variable {found[1]} is not set"
                self.problems.append(Finding(key=".".join(keys), line=self.file.line(keys), text=why))
            return found[0] if given is None else given

        return _PLACEHOLDER.sub(value, text)

    def _converted(self, raw: object, wanted: object, keys: Keys) -> object:
        try:
            return msgspec.convert(raw, cast("Any", wanted), dec_hook=_secret(".".join(keys)))
        except (msgspec.ValidationError, TypeError) as error:
            raise self._bad(keys, f"must be {allowed(wanted)}{_instead(raw, wanted)}") from error

    def _from_text(self, text: str, wanted: object, keys: Keys, variable: str) -> object:
        try:
            return _parsed(text, wanted, ".".join(keys))
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            if variable:
                raise BadInput(f"{variable} must be {allowed(wanted)}", field=variable) from error
            raise self._bad(keys, f"must be {allowed(wanted)} once its variables are filled in") from error

    def _bad(self, keys: Keys, rule: str) -> BadFile:
        path, dotted, line = str(self.file.path), ".".join(keys), self.file.line(keys)
        return BadFile(f"{path}:{line}: {dotted} {rule}", path=path, line=line, field=dotted)


def variable_names(info: FieldInfo, keys: Keys) -> Sequence[str]:
    """Return the environment variables of a field, the one that comes first having the last word."""
    alias = marks(info.type).get("env", ())
    aliases = (alias,) if isinstance(alias, str) else cast("Sequence[str]", alias)
    return tuple(dict.fromkeys(("HALO_" + re.sub(r"[^A-Z0-9]", "_", "_".join(keys).upper()), *aliases)))


def marks(wanted: object) -> Mapping[str, object]:
    """Return the `extra` marks of an annotated type."""
    found: dict[str, object] = {}
    for each in metas(wanted):
        found.update(each.extra or {})
    return found


def metas(wanted: object) -> Sequence[Meta]:
    """Return the `Meta`s of an annotated type."""
    return [each for each in get_args(wanted)[1:] if isinstance(each, Meta)] if get_origin(wanted) is Annotated else []


def bare_type(wanted: object) -> object:
    """Return a type without annotations and without `| None`."""
    while get_origin(wanted) is Annotated:
        wanted = get_args(wanted)[0]
    if get_origin(wanted) in (Union, UnionType):
        rest = [each for each in get_args(wanted) if each is not NoneType]
        return bare_type(rest[0]) if len(rest) == 1 else wanted
    return wanted


def struct_of(wanted: object) -> type[Struct] | None:
    """Return the struct that a field holds, if it holds one."""
    bare = bare_type(wanted)
    return bare if isinstance(bare, type) and issubclass(bare, Struct) else None


def is_secret(wanted: object) -> bool:
    """Tell whether a type is a secret's, or holds secrets."""
    return bare_type(wanted) is Secret or any(is_secret(each) for each in get_args(bare_type(wanted)))


def allowed(wanted: object) -> str:
    """Return in words what a field of this type may hold."""
    bare = bare_type(wanted)
    origin, inner = get_origin(bare), get_args(bare)
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin in (Union, UnionType):
        return " or ".join(allowed(each) for each in inner)
    if origin in (list, tuple, set, frozenset):
        return f"a list of {allowed(inner[0])}"
    if origin is dict:
        return f"a mapping to {allowed(inner[1])}"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Secret: "text (a secret)"}
    return words.get(cast("type", bare), "a mapping") + "".join(map(_bounds, metas(wanted)))


def _bounds(meta: Meta) -> str:
    low = meta.ge if meta.ge is not None else meta.min_length
    high = meta.le if meta.le is not None else meta.max_length
    length = " characters" if meta.min_length is not None or meta.max_length is not None else ""
    words = [
        f" from {low} to {high}{length}" if low is not None and high is not None else "",
        f" of at least {low}{length}" if low is not None and high is None else "",
        f" of at most {high}{length}" if high is not None and low is None else "",
        f" above {meta.gt}" if meta.gt is not None else "",
        f" below {meta.lt}" if meta.lt is not None else "",
        f" like {meta.pattern}" if meta.pattern else "",
    ]
    return "".join(words)


def _instead(raw: object, wanted: object) -> str:
    """Return what was found instead; a secret's text is never shown."""
    kinds: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        dict: "a mapping",
        list: "a list",
    }
    kind = kinds.get(type(raw), f"a {type(raw).__name__}")
    if is_secret(wanted):
        return f", not {kind}" + (": put it between quotes" if isinstance(raw, int | float) else "")
    shown = json.dumps(raw) if isinstance(raw, str | int | float | bool) else kind
    return f", not {shown}"


def _secret(name: str) -> Any:
    def decode(wanted: type, raw: object) -> object:
        if wanted is Secret and isinstance(raw, str):
            return Secret(raw, name)
        if isinstance(raw, Secret):  # an entry of a mapping or a list, converted on the way down
            return raw
        raise TypeError(f"not a {wanted.__name__}")

    return decode


def _parsed(text: str, wanted: object, key: str) -> object:
    """Return the value that a variable's text stands for: lists with commas or as JSON, mappings as JSON."""
    bare = bare_type(wanted)
    origin = get_origin(bare)
    hook = _secret(key)
    if bare is Secret:
        return Secret(text, key)
    if bare is str or (origin in (Union, UnionType) and str in get_args(bare)):
        return msgspec.convert(text, cast("Any", wanted), dec_hook=hook)
    if origin in (list, tuple) and not text.lstrip().startswith("["):
        items = [item.strip() for item in text.split(",") if item.strip()]
        return msgspec.convert(items, cast("Any", wanted), strict=False, dec_hook=hook)
    if origin in (list, tuple, dict) or struct_of(wanted):
        return msgspec.convert(json.loads(text), cast("Any", wanted), dec_hook=hook)
    return msgspec.convert(text, cast("Any", wanted), strict=False, dec_hook=hook)
