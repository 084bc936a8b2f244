"""What the code has and what docs/reference names are the same set."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from halo_kernel import Kernel, connect, errors, hookspecs
from halo_kernel.http.replies import STATUS
from halo_kernel.records import events

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
        fields = kernel.settings.fields()
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
    found = {name: set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", halo(name, "--help"))) for name in line[1].split(", ")}
    sections = re.split(r"^## `halo ([a-z]+)`$", page("cli.md"), flags=re.MULTILINE)
    documented = {
        name: set(re.findall(r"`(--?[a-z][a-z-]*)`", text))
        for name, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    assert documented == {name: options - {"-h", "--help"} for name, options in found.items()}
