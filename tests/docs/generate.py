"""Writes the parts of docs/reference that are the code's own words: `uv run python -m tests.docs.generate`.

Such a part lies between `<!-- from the code: WHAT -->` and `<!-- end -->`. A test compares it with the code.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args

import msgspec

import halo_kernel
from halo_cli.quality.scale import read_scale
from halo_kernel import contracts, hookspecs, pytest_plugin, testing
from halo_kernel.manifests import Manifest

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
_PART = re.compile(r"(<!-- from the code: (\w+) ?([\w.]*) -->\n).*?(<!-- end -->)", re.DOTALL)
# The kernel's own classes that `Host` leads to, each with those of its public members that are the kernel's own.
HANDED_OUT = {
    "Accounts": "start restart",
    "Blobs": "collect sweep",
    "Data": "open_home open_channels open_place forget close",
    "Egress": "",
    "Kernel": "start recover work reload close",
    "Live": "",
    "Outbox": "",
    "Prompt": "accept settle fail",
    "Questions": "",
    "Scope": "close",
    "Secrets": "",
    "Session": "lease running closed find_agent stir wake tell_tree told alter doze halted close write",
    "Sessions": "make recover wake close",
    "Settings": "declare",
    "Subscription": "",
    "Workspaces": "seat busy mark_busy close watch close_idle",
}
_WHEN_IT_FAILS = {
    "collect": "its part is missing",
    "notify": "it is reported",
    "notify, awaited": "it is reported",
    "first": "the question fails",
    "guard": "a refusal",
    "fold": "its change is left out",
}


def filled(text: str) -> str:
    """Return a page with every such part as the code has it now."""
    return _PART.sub(lambda found: found[1] + "\n".join(PARTS[found[2]](found[3])) + "\n" + found[4], text)


def table(head: str, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield a table, with a blank line before and after it; `head` names its columns."""
    yield from ("", f"| {head} |", "|" + "---|" * (head.count("|") + 1))
    yield from (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    yield ""


def said(thing: object) -> str:
    """Return what a docstring says, in one line."""
    return " ".join((inspect.getdoc(thing) or "").split())


def short(annotation: object) -> str:
    """Return a type as people write it."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"Annotated\[([^,]+), Meta\([^)]*\)\]", r"\1", text.strip("'"))
    return re.sub(
        r"\b(?:records|contracts|typing|collections\.abc|msgspec|errors|builtins|halo_kernel(\.\w+)*)\.", "", text
    )


def hooks(_: str) -> Iterator[str]:
    """Every hook: arguments, verb, colour, result, and what follows when a plugin fails in it."""
    rows: list[list[str]] = []
    for name, spec in vars(hookspecs).items():
        if hasattr(spec, f"{hookspecs.PROJECT}_spec"):
            signature, verb = inspect.signature(spec), said(spec).partition(":")[0].lower()
            fails = "the turn ends with an error" if name == "prepare_context" else _WHEN_IT_FAILS[verb]
            colour = "async def" if inspect.iscoroutinefunction(spec) else "def"
            call = f"`{name}({', '.join(signature.parameters)})`"
            given = ", ".join(f"`{named(each)}`" for each in signature.parameters.values())
            rows.append([call, verb, f"`{colour}`", given, f"`{short(signature.return_annotation)}`", fails])
    return table("hook | verb | | its arguments | result | a plugin that fails", rows)


def members(name: str) -> Iterator[str]:
    """The members of what plugins hold or supply; of what they supply, and of records, its own words first."""
    if name in HANDED_OUT:
        yield from table("member | ", ([f"`{call}`", what] for call, what in handed_out(name)))
        return
    kind = getattr(contracts, name)
    yield from ("", said(kind))
    yield from table("member | ", ([f"`{call}`", what] for call, what in members_of(kind)))


def handed_out(name: str) -> Iterator[tuple[str, str]]:
    """Yield what plugins hold of a class of the kernel: attributes with a remark, properties, and methods."""
    kind = getattr(halo_kernel, name)
    attribute = re.compile(r"^        self\.([a-z]\w*)(?:: (.+?))? = (.+?)  # (.+)$", re.MULTILINE)
    for each, annotation, value, remark in attribute.findall(inspect.getsource(kind)):
        if each in HANDED_OUT[name].split():
            continue
        given = inspect.signature(kind).parameters.get(value)
        guess = short(given.annotation) if given else "int" if value.isdecimal() else ""
        yield ": ".join(filter(None, [each, short(annotation or guess)])), remark
    for each, member in vars(kind).items():
        if each.startswith("_") or each in HANDED_OUT[name].split():
            continue
        if inspect.isfunction(member):
            yield method(each, member)
        elif isinstance(member, property):
            yield f"{each}: {short(inspect.get_annotations(member.fget)['return'])}", said(member.fget)


def members_of(kind: type) -> Iterator[tuple[str, str]]:
    """Yield each public member of a protocol or of a record in `contracts`, with what it is."""
    known = dict.fromkeys([*inspect.get_annotations(kind), *vars(kind)])
    for name in [each for each in known if not each.startswith("_")]:
        member = vars(kind).get(name)
        if inspect.isfunction(member):
            yield method(name, member)
        elif isinstance(member, property):
            yield f"{name}: {short(inspect.get_annotations(member.fget)['return'])}", said(member.fget)
        else:
            remark = re.search(rf"^    {name}: .+?  # (.+)$", inspect.getsource(kind), re.MULTILINE)
            yield f"{name}: {short(kind.__annotations__[name])}", remark[1] if remark else ""


def method(name: str, member: Callable[..., object]) -> tuple[str, str]:
    """Return a method as a call shows it, with its types, and what it does."""
    awaited = "awaited: " if inspect.iscoroutinefunction(member) else ""
    return call_of(name, member, without=1), awaited + said(member)


def call_of(name: str, function: Callable[..., object], *, without: int = 0) -> str:
    """Return a call with its types; the first `without` arguments are left out."""
    signature = inspect.signature(function)
    given: list[str] = []
    for each in list(signature.parameters.values())[without:]:
        if each.kind is each.KEYWORD_ONLY and "*" not in "".join(given):
            given.append("*")
        given.append(named(each))
    result = signature.return_annotation
    told = "" if result in (signature.empty, None, "None") else f" -> {short(result)}"
    if yielded := hasattr(function, "__wrapped__") and re.search(r"Generator\[([^,\]]+)", told):  # a context manager
        return f"async with {name}({', '.join(given)}) as {yielded[1]}"
    return f"{name}({', '.join(given)}){told}"


def named(argument: inspect.Parameter) -> str:
    """Return an argument as a signature shows it."""
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(argument.kind, "")
    kind = "" if argument.annotation is argument.empty else f": {short(argument.annotation)}"
    default = "" if argument.default is argument.empty else usual(argument.default)
    return f"{star}{argument.name}{kind}{default}"


def records(name: str) -> Iterator[str]:
    """The records of a module, with their fields, and the names of its types and constants."""
    module = importlib.import_module(f"halo_kernel.records.{name}")
    yield from table("record | fields | ", ([f"`{each}`", fields(kind), said(kind)] for each, kind in classes(module)))
    others = [[f"`{each}`", f"`{value}`"] for each, value in constants(module)]
    if others:
        yield from table("name | is", others)


def names(name: str) -> Iterator[str]:
    """The names of the types of a module of contracts."""
    module = importlib.import_module(f"halo_kernel.contracts.{name}")
    return table("name | is", ([f"`{each}`", f"`{value}`"] for each, value in constants(module) if len(each) > 1))


def classes(module: ModuleType) -> Iterator[tuple[str, type]]:
    """Yield the public classes of a module."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield name, value


def fields(kind: type) -> str:
    """Return the fields of a record, each with its type, its default if it has one, and its name in JSON if another."""
    types = {name: value for each in reversed(kind.__mro__) for name, value in inspect.get_annotations(each).items()}
    if issubclass(kind, msgspec.Struct):
        names, defaults = kind.__struct_fields__, kind.__struct_defaults__
        padded = [msgspec.NODEFAULT] * (len(names) - len(defaults)) + list(defaults)
        encoded = dict(zip(names, kind.__struct_encode_fields__, strict=True))
        found = [(name, value) for name, value in zip(names, padded, strict=True) if name != "v"]
        return ", ".join(
            f"`{name}: {short(types[name])}{usual(value)}`"
            + (f" (in JSON `{encoded[name]}`)" if encoded[name] != name else "")
            for name, value in found
        )
    if not dataclasses.is_dataclass(kind):
        return ""
    found = [(each.name, each.default) for each in dataclasses.fields(kind)]
    known = [(name, {} if value is dataclasses.MISSING and name == "headers" else value) for name, value in found]
    return ", ".join(f"`{name}: {short(types[name])}{usual(value)}`" for name, value in known)


def usual(value: object) -> str:
    """Return ` = …` for a field that may be left out."""
    if value in (msgspec.NODEFAULT, dataclasses.MISSING):
        return ""
    plain = isinstance(value, str | int | float | bool | None | tuple | dict)
    return f" = {value!r}" if plain else " = {}" if type(value).__name__ == "Factory" else " = …"


def constants(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the types and constants that a module defines, as written there."""
    tree = inspect.getsource(module)
    for name, value in re.findall(r"^([A-Z]\w*)(?:: [^=\n]+)? = ([^({\n].*)$", tree, re.MULTILINE):
        literal = get_args(getattr(module, name))
        yield name, " | ".join(map(repr, literal)) if value.startswith("Literal") else value


def others(_: str) -> Iterator[str]:
    """Everything public that is neither a record nor an error nor of `host.md`."""
    rows: list[list[str]] = []
    for names in vars(halo_kernel)["_HOMES"].values():
        for name in sorted({*names.split()} - {*HANDED_OUT}):
            value = getattr(halo_kernel, name)
            shown = call_of(name, value) if inspect.isfunction(value) else name
            rows.append([f"`{shown}`", "" if isinstance(value, str) else said(value)])
    return table("name | ", sorted(rows))


def kit(_: str) -> Iterator[str]:
    """Every name of the kit, with its members."""
    return table("name | | members", ([f"`{name}`", *about(getattr(testing, name))] for name in sorted(dir(testing))))


def about(value: object) -> tuple[str, str]:
    """Return the first sentence about a name of the kit, and how it is called or what it has."""
    if inspect.isfunction(value):
        return first(value), f"`{call_of(value.__name__, value)}`"
    if not inspect.isclass(value):
        return first(value), ""
    made = vars(value).get("__init__")
    found = [*inspect.get_annotations(value), *vars(value)]
    if inspect.isfunction(made) and os.path.exists(made.__code__.co_filename):  # a dataclass's is in no file
        found += re.findall(r"^        self\.(\w+)(?=: | = )", inspect.getsource(made), re.MULTILINE)
    own = [each for each in dict.fromkeys(found) if each[0] != "_" and not each.startswith(("test_", "pytestmark"))]
    return first(value), ", ".join(f"`{member(each, vars(value).get(each))}`" for each in own)


def member(name: str, value: object) -> str:
    """Return a member of the kit as one writes it."""
    value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if not inspect.isfunction(value):
        return name
    given = [str(each.replace(annotation=each.empty)) for each in inspect.signature(value).parameters.values()]
    return f"{name}({', '.join(re.sub('=.*', '=…', each) for each in given if each not in ('self', 'cls'))})"


def first(value: object) -> str:
    """Return the first sentence about a name; of a type without words of its own, what it stands for."""
    if isinstance(value, str | int | float | tuple):
        return f"`{value!r}`"
    if get_args(value):
        return f"`{' | '.join(getattr(each, '__name__', repr(each)) for each in get_args(value))}`"
    return re.split(r"(?<=\.)\s", said(value).replace("::", ":"), maxsplit=1)[0]


def fixtures(_: str) -> Iterator[str]:
    """The fixtures of the pytest plugin."""
    text = inspect.getsource(pytest_plugin)
    names = re.findall(r"^@(?:pytest\.|async_)fixture\n(?:async )?def (\w+)", text, re.MULTILINE)
    return table("fixture | ", ([f"`{name}`", said(getattr(pytest_plugin, name))] for name in names))


def manifest(_: str) -> Iterator[str]:
    """The keys of `halo.toml`."""
    known = [each for each in msgspec.structs.fields(Manifest) if each.name != "unknown"]
    rows = (
        [
            f"`{each.name}`",
            short(Manifest.__annotations__[each.name]),
            usual(each.default if each.default_factory is msgspec.NODEFAULT else ()).removeprefix(" = ") or "required",
        ]
        for each in known
    )
    return table(
        "key | type | default",
        ([name, f"`{kind}`", f"`{value}`" if value != "required" else value] for name, kind, value in rows),
    )


def deprecations(_: str) -> Iterator[str]:
    """The names that go."""
    data = tomllib.loads((REFERENCE / "deprecations.toml").read_text(encoding="utf-8"))
    rows = [
        [f"`{each['name']}`", each["since"], f"`{each['replacement']}`", each["gone"]] for each in data["deprecated"]
    ]
    return table("name | since | use | gone in", rows or [["none", "", "", ""]])


def scale(_: str) -> Iterator[str]:
    """The rules of the quality scale."""
    return table("rule | tier | ", ([f"`{each.id}`", each.tier, each.says] for each in read_scale()))


PARTS: dict[str, Callable[[str], Iterator[str]]] = {
    each.__name__: each
    for each in (hooks, members, records, names, others, kit, fixtures, manifest, deprecations, scale)
}


if __name__ == "__main__":
    for page in sorted(REFERENCE.glob("*.md")):
        before = page.read_text(encoding="utf-8")
        if (after := filled(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(page)
