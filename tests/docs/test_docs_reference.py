"""What the code has and what docs/reference names are the same set."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import halo_kernel
from halo_kernel import Kernel, contracts, errors, hookspecs, records
from halo_kernel.http.replies import STATUS
from halo_kernel.manifests import Manifest
from halo_kernel.records import events
from halo_lib_client import connect

from .generate import HANDED_OUT, filled

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def named(name: str) -> set[str]:
    """Collect what a reference page documents: the code span that a heading or a table's row begins with."""
    return set(re.findall(r"^(?:#{2,4} |\| )`([^`]+)`", page(name), flags=re.MULTILINE))


def test_every_hook_is_documented() -> None:
    """docs/reference/hooks.md names every hook and its arguments, and no other."""
    found = {
        f"{name}({', '.join(inspect.signature(hook).parameters)})"
        for name, hook in vars(hookspecs).items()
        if hasattr(hook, f"{hookspecs.PROJECT}_spec")
    }
    assert named("hooks.md") == found


def test_reserved_hooks_are_not_there_yet() -> None:
    """The hooks that hooks.md reserves are none of the kernel's."""
    reserved = re.findall(r"^- `(\w+)\(", page("hooks.md").partition("\n## Reserved\n")[2], re.MULTILINE)
    assert reserved
    assert [name for name in reserved if hasattr(hookspecs, name)] == []


@pytest.mark.parametrize("name", sorted(path.name for path in REFERENCE.glob("*.md")))
def test_what_the_code_says_is_as_it_says_now(name: str) -> None:
    """The parts that are the code's own words are up to date: else run `uv run python -m tests.docs.generate`."""
    assert page(name) == filled(page(name))


def test_every_contract_is_documented() -> None:
    """docs/reference/host.md has the members of everything that plugins hold or supply."""
    found = {
        name
        for name, kind in vars(contracts).items()
        if inspect.isclass(kind) and kind.__module__.startswith(contracts.__name__)
    }
    documented = set(re.findall(r"^<!-- from the code: members (\w+) -->$", page("host.md"), re.MULTILINE))
    assert documented == found | {*HANDED_OUT}


def test_every_record_is_documented() -> None:
    """docs/reference/records.md has the records of every module of them."""
    found = {
        kind.__module__.rpartition(".")[2]
        for kind in vars(records).values()
        if inspect.isclass(kind) and kind.__module__.startswith(records.__name__)
    }
    assert set(re.findall(r"^<!-- from the code: records (\w+) -->$", page("records.md"), re.MULTILINE)) == found


def test_every_key_of_halo_toml_is_documented() -> None:
    """docs/reference/halo-toml.md says of every key what it means, and of no other."""
    meanings = page("halo-toml.md").partition("| key | meaning |")[2]
    found = set(Manifest.__struct_fields__) - {"unknown"}
    assert set(re.findall(r"^\| `(\w+)` \|", meanings, re.MULTILINE)) == found


def test_every_error_is_documented() -> None:
    """docs/reference/errors.md names every error with its HTTP status, and no other."""
    rows = re.findall(r"^\| `([^`]+)` \| (\d+) \|", page("errors.md"), re.MULTILINE)
    found = {
        name: str(next(STATUS[base] for base in value.__mro__ if base in STATUS))
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.HaloError)
    }
    assert dict(rows) == found


def test_every_event_kind_is_documented() -> None:
    """docs/reference/events.md names every kind of event with the fields of its body, and no other."""
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", page("events.md"), re.MULTILINE)
    found = {
        kind: ", ".join(name for name in body.__struct_encode_fields__ if name != "v")
        for kind, body in events.KINDS.items()
    }
    assert dict(rows) == found


def shown(default: object) -> str:
    """Write a default as the page does."""
    if default in (None, (), {}):
        return "none"
    if default == "":
        return "empty"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


async def test_every_setting_is_documented(tmp_path: Path) -> None:
    """docs/reference/settings.md names every setting with its default and short variables, and no other."""
    kernel = await Kernel.start(tmp_path, embedded=True, env={})
    try:
        fields = kernel.settings.at().fields.values()
    finally:
        await kernel.close()
    rows = re.findall(r"^\| `([a-z_]+\.[^`]+)` \| ([^|]*) \| ([^|]*)\|", page("settings.md"), re.MULTILINE)
    documented = {key: (default.strip("`"), set(re.findall(r"`([^`]+)`", names))) for key, default, names in rows}
    assert documented == {field.key: (shown(field.default), set(field.variables[1:])) for field in fields}


def test_every_route_is_documented(tmp_path: Path) -> None:
    """docs/reference/http.md names every route that a server with all plugins has, and no other."""
    client = connect(tmp_path, local=True)
    try:
        description = client.get("/api/openapi.json")
    finally:
        client.close()
    found = {f"{method.upper()} {path}" for path, methods in description["paths"].items() for method in methods}
    assert {name for name in named("http.md") if " /" in name} == found


def halo(*words: str) -> str:
    """Return what a command line prints."""
    command = [sys.executable, "-m", "halo_kernel", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_every_command_is_documented() -> None:
    """docs/reference/cli.md names every command that `halo --help` lists, and every option of each, and no other."""
    line = re.search(r"^commands: (.+)$", halo("--help"), re.MULTILINE)
    assert line is not None
    names = line[1].split(", ")
    found = {name: set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", halo(*name.split(), "--help"))) for name in names}
    sections = re.split(r"^## `halo ([a-z ]+)`$", page("cli.md"), flags=re.MULTILINE)
    documented = {
        name: set(re.findall(r"`(--?[a-z][a-z-]*)`", text))
        for name, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    assert documented == {name: options - {"-h", "--help"} for name, options in found.items()}


def passed() -> Iterator[str]:
    """Yield the functions that the walks of the map pass: those in the first cells of its tables."""
    text = (REFERENCE.parent / "explanation" / "map.md").read_text(encoding="utf-8")
    for cell in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE):
        yield from re.findall(r"`([a-z_]+(?:\.\w+)+)`", cell)


@pytest.mark.parametrize("name", sorted({*passed()}))
def test_the_map_passes_what_is_there(name: str) -> None:
    """Every module, class and function that the map's walks name is in the kernel."""
    found, module = halo_kernel, "halo_kernel"
    for part in name.split("."):
        module = f"{module}.{part}"
        try:
            found = importlib.import_module(module)
        except ImportError:
            found = getattr(found, part)
