"""Rules about a plugin's own code, decided without running it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .module import Function, Module, called, calls, own_calls
from .project import Project

_BARE = {"Exception", "BaseException"}
# What reaches for the network and for processes: packages that are imported, and the ends of calls.
REACH = {
    "network": {
        *("socket", "ssl", "http.client", "urllib.request", "smtplib", "imaplib", "ftplib"),
        *("aiohttp", "httpx", "requests", "websockets", "boto3", "botocore"),
        *("halo_lib_egress", "halo_lib_wire.vendors"),
        *("asyncio.open_connection", "asyncio.start_server"),
    },
    "processes": {
        *("subprocess", "multiprocessing"),
        *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "os.fork", "os.system"),
    },
}
_BLOCKS = re.compile(
    r"time\.sleep|os\.system|(?:subprocess\.(?:run|call|check_call|check_output))|(?:\w+\.)*urlopen|requests\.\w+"
)
_BARE_IGNORE = re.compile(r"#\s*type:\s*ignore(?!\[)")
_EMPTY = {"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter", "WeakKeyDictionary"}


def honest_errors(project: Project) -> Iterator[str]:
    """An error has a name, and is seen."""
    for module in project.modules:
        for node in ast.walk(module.tree):
            match node:
                case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)) if name in _BARE:
                    yield f"{module.at(node)} raises a bare {name}"
                case ast.ExceptHandler(type=kind, body=[ast.Pass()]) if kind is None or called(kind) in _BARE:
                    yield f"{module.at(node)} passes over every error"
                case _:
                    pass


def capabilities(project: Project) -> Iterator[str]:
    """What it reaches for is declared, and shown to whoever installs it."""
    declared = project.manifest.get("capabilities", ())
    for name, reached in REACH.items():
        found = [f"{module.name} uses {use}" for module in project.modules for use in _uses(module, reached)]
        if found and name not in declared:
            yield f"{found[0]}, and halo.toml does not declare {name}"


def _uses(module: Module, reached: set[str]) -> Iterator[str]:
    """Yield what a module imports or calls of some packages and functions."""
    for name in module.imports:
        yield from (each for each in reached if f"{name}.".startswith(f"{each}."))
    for call in calls(module.tree):
        if (name := called(call.func)) in reached:
            yield name


def docstrings(project: Project) -> Iterator[str]:
    """Whoever reads it is told what is what."""
    for module in project.modules:
        if not ast.get_docstring(module.tree):
            yield f"{module.name} has no docstring"
        yield from (f"{module.at(node)} {node.name} has no docstring" for node in _public(module.tree.body))


def _public(body: list[ast.stmt]) -> Iterator[ast.ClassDef | Function]:
    """Yield public classes and functions without a docstring, and such methods."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node) and "overload" not in map(called, node.decorator_list):
                yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body)


def strict_types(project: Project) -> Iterator[str]:
    """A type checker has looked at all of it."""
    if not any(_is_strict(folder / "pyproject.toml") for folder in (project.folder, *project.folder.parents)):
        yield "pyproject.toml has no tool.mypy with strict = true"
    for module in project.modules:
        lines = module.text.splitlines()
        yield from (f"{module.name}:{at} ignores every error" for at, line in enumerate(lines, 1) if _is_bare(line))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_annotated(node):
                yield f"{module.at(node)} {node.name} has no types"


def _is_strict(path: Path) -> bool:
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return document.get("tool", {}).get("mypy", {}).get("strict") is True


def _is_bare(line: str) -> bool:
    return _BARE_IGNORE.search(line) is not None


def _is_annotated(function: Function) -> bool:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    known = all(each.annotation or each.arg in ("self", "cls") for each in named)
    return known and (function.returns is not None or function.name == "__init__")


def no_blocking(project: Project) -> Iterator[str]:
    """One plugin does not hold all others up."""
    for module in project.modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.AsyncFunctionDef):
                for call in own_calls(node):
                    if _BLOCKS.fullmatch(name := called(call.func)):
                        yield f"{module.at(call)} calls {name} in a coroutine"
    for module in project.tests:
        called_with = {id(call.func) for call in calls(module.tree) if call.args}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr == "halo_may_block" and id(node) not in called_with:
                yield f"{module.at(node)} may block for as long as it likes"


def stateless_modules(project: Project) -> Iterator[str]:
    """Two kernels of a process, and two generations of a plugin, share nothing."""
    for module in project.modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Global):
                yield f"{module.at(node)} changes {', '.join(node.names)} of the module"
        for node in module.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_empty(node.value):
                yield f"{module.at(node)} keeps what it fills later"


def _is_empty(value: ast.expr) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=function, args=args):
            return called(function).rpartition(".")[2] in _EMPTY and not args
        case _:
            return False
