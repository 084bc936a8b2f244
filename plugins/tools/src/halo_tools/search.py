"""`glob` and `grep`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import BadInput
from halo_lib_files import Entry, Glob, Root, expand_braces, split_commas

from .files import Path, joined, printable
from .ripgrep import Searcher, Target
from .work import Work, describe

FOUND = 5000
SEARCHED = 200_000
SKIPPED = ("node_modules", ".git", ".next", "dist")
SKIPPED_HALO = ("sessions", "logs", "evo", "tmp", "assets", "canvas")
WIDTH = 500

Pattern = Annotated[str, Meta(min_length=1, max_length=1000)]


class GlobArguments(Struct, forbid_unknown_fields=True):
    """What `glob` takes."""

    pattern: Annotated[Pattern, Meta(description="Such as **/*.py or src/**/*.{ts,tsx}; * stays within a folder.")]
    path: Annotated[Path, Meta(description="Folder to search in; default the workspace.")] = "."


class GrepArguments(Struct, forbid_unknown_fields=True):
    """What `grep` takes."""

    pattern: Annotated[Pattern, Meta(description="Regular expression, matched line by line; (?i) ignores case.")]
    path: Annotated[Path, Meta(description="Folder or single file to search; default the workspace.")] = "."
    include: Annotated[Pattern, Meta(description="Only files named so: *.ts, *.{ts,tsx}, or a list with commas.")] = "*"
    max_results: Annotated[int, Meta(ge=1, le=1000, description="Lines to show at most; default 50.")] = 0


GLOB = describe(
    "glob",
    "Find files by name. node_modules, .git, .next and dist are left out. Paths are relative to the workspace.",
    GlobArguments,
)
GREP = describe(
    "grep",
    "Search files for a regular expression. Shows file:line:content. Binary files, links, node_modules, .git, .next and"
    " dist are left out.",
    GrepArguments,
)


def skipped(entry: Entry) -> bool:
    """Tell whether searches pass an entry over."""
    if entry.name in SKIPPED:
        return True
    folder, _, name = entry.path.rpartition("/")
    return name in SKIPPED_HALO and folder.rpartition("/")[2] == ".halo"


async def glob(work: Work[GlobArguments]) -> str:
    """List the files that a pattern names."""
    base, pattern = _anchored(work.arguments.path, work.arguments.pattern)
    if ".." in pattern.split("/"):
        raise BadInput("the argument pattern holds '..'; give the folder as path.", field="pattern")
    room = work.place.settings.result_chars

    def do(check: Callable[[], None]) -> str:
        found = set[str]()
        reach = work.reach
        with reach.open(base) as (root, path):
            for entry in _named(root, path, [Glob(each) for each in expand_braces(pattern)], check):
                found.add(printable(reach.show(root.path, entry.path)))
                if len(found) > FOUND:
                    break
        note = "[truncated: more files match, use a narrower pattern]"
        listed = joined(sorted(found), limit=FOUND, room=room, note=note)
        return listed or f"No files found matching pattern {work.arguments.pattern}"

    return await work.in_thread(do)


def _anchored(path: str, pattern: str) -> tuple[str, str]:
    """Return the folder and the pattern in it; an absolute pattern brings its own folder."""
    pattern = os.path.expanduser(pattern)
    if not pattern.startswith("/"):
        return path, pattern
    start = Glob(pattern.partition("{")[0] + "*").start
    return ("/", pattern.lstrip("/")) if start == "." else (start, pattern[len(start) :].lstrip("/"))


def _named(root: Root, path: str, globs: list[Glob], check: Callable[[], None]) -> Iterator[Entry]:
    """Yield the files below `path` that one of `globs` names, links to files included."""
    base = root.find(path)
    prefix = "" if base is None or base.path == "." else base.path + "/"
    for begin in dict.fromkeys(glob.start for glob in globs):
        start = root.find(f"{path}/{begin}")
        if start is None or start.kind != "folder":
            continue
        for entry in root.walk(start.path, skip=skipped, check=check):
            if entry.kind == "file" and any(glob.matches(entry.path.removeprefix(prefix)) for glob in globs):
                yield entry


async def grep(work: Work[GrepArguments], searcher: Searcher) -> str:
    """Show the lines that match."""
    asked = work.arguments
    wanted = asked.max_results or work.place.settings.grep_default_matches
    target = await work.in_thread(lambda check: _targets(work, check))
    hits = await searcher.search(work, target, wanted + 1)
    reach = work.reach
    shown = [f"{printable(reach.show(target.folder, hit.path))}:{hit.line}:{hit.text[:WIDTH]}" for hit in hits]
    note = "... more lines match: narrow the pattern, path or include."
    lines = joined(shown, limit=wanted, room=work.place.settings.result_chars, note=note)
    return lines or f'No matches found for pattern "{asked.pattern}"'


def _targets(work: Work[GrepArguments], check: Callable[[], None]) -> Target:
    asked = work.arguments
    names = [Glob(each) for part in split_commas(asked.include) for each in expand_braces(part)]
    with work.reach.open(asked.path) as (root, path):
        base = root.find(path)
        if base is not None and base.kind == "file":
            root.open(path).close()
            return Target(root.path, base.path, [base.path])
        prefix = "" if base is None or base.path == "." else base.path + "/"
        files = list[str]()
        for entry in root.walk(path, skip=skipped, check=check):
            if entry.kind == "file" and not entry.linked and _included(entry, prefix, names):
                files.append(entry.path)
            if len(files) > SEARCHED:
                raise BadInput(f"there are more than {SEARCHED} files; give a narrower path.", field="path")
    return Target(root.path, base.path if base else path, files)


def _included(entry: Entry, prefix: str, names: list[Glob]) -> bool:
    """A pattern without a slash is held to the name, one with a slash to the path from the searched folder."""
    path = entry.path.removeprefix(prefix)
    return any(name.matches(path if "/" in name.text else entry.name) for name in names)
