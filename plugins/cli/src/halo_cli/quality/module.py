"""A file of Python, as a rule looks at it: nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from halo_kernel import BadFile

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module of a package or of its tests; `name` is its path, as people are told it."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax. Raises `BadFile` for what is no Python."""
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise BadFile(f"{self.name}:{line}: {error}", path=self.name, line=line) from error

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, argument and base that it uses."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                    found.update(name.split("."))
                case _:
                    pass
        return frozenset(found)

    @property
    def imports(self) -> Iterator[str]:
        """The dotted name of every absolute import."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    yield from (each.name for each in names)
                case ast.ImportFrom(module=str(name), level=0, names=names):
                    yield from (f"{name}.{each.name}" for each in names)
                case _:
                    pass

    @property
    def bases(self) -> Iterator[str]:
        """The last word of every base of a class."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                yield from (called(base).rpartition(".")[2] for base in node.bases)

    def at(self, node: ast.stmt | ast.expr | ast.ExceptHandler) -> str:
        """Return where something is."""
        return f"{self.name}:{node.lineno}"


def read_modules(folder: Path, *, name: str = "") -> Iterator[Module]:
    """Yield every module below a folder, or the one that a path is; their names begin with `name`."""
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    for path in paths:
        where = path.name if path == folder else path.relative_to(folder).as_posix()
        yield Module(name + where, path.read_text(encoding="utf-8", errors="replace"))


def called(node: ast.expr) -> str:
    """Return a name as it is written, such as `time.sleep`; the part before a call or an index is left out."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            before = called(value)
            return f"{before}.{name}" if before else name
        case ast.Subscript(value=value):
            return called(value)
        case _:
            return ""


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield every call in a part of a module."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def own_calls(function: Function) -> Iterator[ast.Call]:
    """Yield the calls of a function that are not those of a function in it."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting += ast.iter_child_nodes(node)
