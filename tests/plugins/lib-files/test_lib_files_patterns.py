"""Glob patterns against pathlib, braces, and patterns made to be slow."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_lib_files import FilesError, Glob, expand_braces, split_commas

PARTS = st.sampled_from(["a", "b", "ab", "a.py", ".h", "B"])
TREE = st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), max_size=10)
PATTERN = st.lists(
    st.sampled_from(["**", "*", "a", "a*", "*.py", "?", "[ab]", "[!a]", "ab", ".*"]), min_size=1, max_size=4
).filter(lambda parts: parts[-1] != "**")


@given(tree=TREE, parts=PATTERN)
@settings(max_examples=300, deadline=None)
def test_globs_are_those_of_pathlib(scratch: Any, tree: list[str], parts: list[str]) -> None:
    """A pattern names exactly the files that `pathlib` finds with it, and its start holds them all."""
    pattern = "/".join(parts)
    with scratch() as name:
        folder = Path(name)
        for path in tree:
            if not any(parent.is_file() for parent in (folder / path).parents) and not (folder / path).exists():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).touch()
        files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        found = {path.relative_to(folder).as_posix() for path in folder.glob(pattern) if path.is_file()}
    glob = Glob(pattern)
    assert {path for path in files if glob.matches(path)} == found
    assert all(glob.start == "." or path.startswith(glob.start + "/") for path in found)


def test_two_stars_at_the_end_are_all_files_below() -> None:
    """`src/**` names every file below src, at any depth, and not src itself."""
    glob = Glob("src/**")
    assert [path for path in ("src", "src/a", "src/b/c", "lib/a") if glob.matches(path)] == ["src/a", "src/b/c"]


def test_braces() -> None:
    """Braces stand for their alternatives, nested too; without a comma or a partner they stand for themselves."""
    assert expand_braces("*.{ts,tsx}") == ["*.ts", "*.tsx"]
    assert expand_braces("{a,b{1,2}}/{c,}") == ["a/c", "a/", "b1/c", "b1/", "b2/c", "b2/"]
    assert expand_braces("{a}{b") == ["{a}{b"]
    assert split_commas("*.py, *.{ts,tsx} ,,x") == ["*.py", "*.{ts,tsx}", "x"]


def test_too_many_alternatives_are_refused() -> None:
    """Alternatives that multiply without bound are an error and not a full memory."""
    with pytest.raises(FilesError, match="alternatives"):
        expand_braces("{a,b}" * 40)


@given(st.text("{},ab", max_size=30))
def test_any_braces_end(pattern: str) -> None:
    """Every text of braces and commas is expanded or refused."""
    with suppress(FilesError):
        assert expand_braces(pattern)


def test_no_pattern_is_slow() -> None:
    """Patterns that make a backtracking matcher take forever are matched at once."""
    started = time.monotonic()
    assert not Glob("*a" * 40 + "b").matches("a" * 200)
    assert not Glob("/".join(["**", "a"] * 30) + "/b").matches("/".join(["a"] * 200))
    assert time.monotonic() - started < 2
