"""The source trees that the rules are checked on."""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FREE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Module:
    """One file of a distribution; `name` is dotted, with the package first."""

    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @cached_property
    def code_lines(self) -> frozenset[int]:
        """Line numbers that hold code: not blank, not comment, not docstring."""
        tokens = tokenize.generate_tokens(io.StringIO(self.path.read_text(encoding="utf-8")).readline)
        held: set[int] = set()
        for token in tokens:
            if token.type not in FREE:
                held.update(range(token.start[0], token.end[0] + 1))
        return frozenset(held - self._docstring_lines())

    def _docstring_lines(self) -> set[int]:
        bodies = [body for node in ast.walk(self.tree) if isinstance(body := getattr(node, "body", None), list)]
        lines: set[int] = set()
        for statement in (each for body in bodies for each in body):
            match statement:
                case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                    lines.update(range(first, last + 1))
                case _:
                    pass
        return lines

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield each function's name and its code lines, inner functions included in the outer's."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                yield f"{self.name}.{node.name}", len(self.code_lines.intersection(span))

    def imports(self) -> Iterator[str]:
        """Yield the dotted name of every absolute import, wherever in the file it is."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield node.module


@dataclass(frozen=True)
class Distribution:
    """A folder with a pyproject.toml: the kernel, a plugin, a library or an example."""

    folder: Path

    @cached_property
    def project(self) -> dict[str, Any]:
        loaded: dict[str, Any] = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return loaded

    @property
    def name(self) -> str:
        return str(self.project["name"])

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def is_plugin(self) -> bool:
        return self.folder.parent in (ROOT / "plugins", ROOT / "examples") and not self.is_library

    @property
    def is_library(self) -> bool:
        return self.folder.name.startswith("lib-")

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        source = self.folder / "src"
        return tuple(Module(_dotted(path.relative_to(source)), path) for path in sorted(source.rglob("*.py")))


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def distributions() -> list[Distribution]:
    """List the kernel and every folder of plugins/ that has a pyproject.toml."""
    folders = [ROOT / "kernel", *sorted((ROOT / "plugins").iterdir())]
    return [Distribution(folder) for folder in folders if (folder / "pyproject.toml").exists()]


@cache
def examples() -> list[Distribution]:
    """List the example plugins, which are no members of the workspace."""
    return [Distribution(path.parent) for path in sorted((ROOT / "examples").glob("*/pyproject.toml"))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test one distribution, one plugin or one example at a time; examples are among the others."""
    every = [*distributions(), *examples()]
    if "distribution" in metafunc.fixturenames:
        metafunc.parametrize("distribution", every, ids=[each.name for each in every])
    if "plugin" in metafunc.fixturenames:
        plugins = [each for each in every if each.is_plugin]
        metafunc.parametrize("plugin", plugins, ids=[each.name for each in plugins])
    if "example" in metafunc.fixturenames:
        metafunc.parametrize("example", examples(), ids=[each.name for each in examples()])


@pytest.fixture(name="every")
def every_distribution() -> list[Distribution]:
    """The members of the workspace."""
    return distributions()


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def workspace(root: Path) -> dict[str, Any]:
    """The root's pyproject.toml."""
    loaded: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return loaded
