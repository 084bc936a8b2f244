"""Searching a list of files with ripgrep, or with Python where it is missing; below full access in the sandbox."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import halo_lib_files
from halo_kernel import BadInput, HaloError
from halo_lib_files import Finished, run

from .environment import minimal_environment
from .jail import Bubblewrap, jail_for
from .work import Work

SECONDS = 120.0
# bubblewrap takes at most 9000 arguments in all, macOS 1 MiB.
BATCH_FILES = 4000
BATCH_BYTES = 256 * 1024


@dataclass(frozen=True)
class Target:
    """What is searched: `files` relative to `folder`, all in `base` or `base` itself."""

    folder: str
    base: str
    files: list[str]


@dataclass(frozen=True)
class Hit:
    """A line that matches; `line` counts from 1."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Searcher:
    """Finds matching lines. `sandbox` confines the search below full access, against files swapped for links."""

    sandbox: Bubblewrap

    @cached_property
    def program(self) -> str | None:
        """Where the `rg` of this Python environment is, else any other, else None."""
        own = Path(sysconfig.get_path("scripts"), "rg.exe" if os.name == "nt" else "rg")
        return str(own) if own.exists() else shutil.which("rg")

    async def search(self, work: Work[Any], target: Target, limit: int) -> list[Hit]:
        """Return the first `limit` hits in the order of the files. Raises `BadInput` for a bad expression."""
        hits = list[Hit]()
        # Without files there is still an expression to check.
        for batch in batches(target.files) if target.files else ([],):
            finished = await self._run(work, target, batch, limit - len(hits))
            if finished.ended in ("timeout", "stopped"):
                raise HaloError(f"the search was stopped after {SECONDS:.0f} s or on request; give a narrower path.")
            hits += parse(finished.stdout)
            if finished.code and finished.err and not finished.out:
                raise _explain(finished)
            if len(hits) >= limit:
                break
        return hits[:limit]

    async def _run(self, work: Work[Any], target: Target, batch: Sequence[str], limit: int) -> Finished:
        pattern = work.arguments.pattern
        feed, env, needed = b"", minimal_environment(), list[str]()
        if self.program is None:
            argv = [sys.executable, "-S", "-m", "halo_lib_files.search"]
            env["PYTHONPATH"] = str(Path(halo_lib_files.__file__).parents[1])
            needed = [sys.prefix, sys.base_prefix, env["PYTHONPATH"]]
            feed = json.dumps({"root": target.folder, "files": batch, "pattern": pattern, "limit": limit}).encode()
        else:
            paths = [f"./{path}" for path in batch] or [os.devnull]
            argv = [self.program, *options(pattern, limit), "--", *paths]
        if work.reach.access != "full" and not await self.sandbox.reason():
            jail = await jail_for(work, self.sandbox, readable=(os.path.join(target.folder, target.base), *needed))
            argv = jail.argv(argv, cwd=target.folder, setenv=env)
        return await run(argv, cwd=target.folder, env=env, timeout=SECONDS, stop=work.call.cancel.wait, feed=feed)


def _explain(finished: Finished) -> HaloError:
    """Return what a search that did not run says on stderr; unreadable files say nothing there."""
    said = finished.stderr.strip()
    if finished.code == 2:
        return BadInput(f"pattern is no valid regular expression: {said}", field="pattern")
    return HaloError(f"the search could not be run: {said}")


def options(pattern: str, limit: int) -> list[str]:
    """Return ripgrep's options; `--null` puts a NUL after the path, so that no name can be misread."""
    return [
        *("--no-config", "--no-messages", "--null", "--line-number", "--with-filename", "--no-heading"),
        *("--color=never", "--crlf", "--threads=1", "--max-columns=500", "--max-columns-preview"),
        *(f"--max-count={limit}", f"--regexp={pattern}"),
    ]


def batches(files: Sequence[str]) -> Iterator[list[str]]:
    """Split a list so that each part fits on a command line."""
    batch, size = list[str](), 0
    for path in files:
        length = len(os.fsencode(path)) + 16
        if batch and (len(batch) >= BATCH_FILES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch


def parse(printed: str) -> list[Hit]:
    """Read path, NUL, line number, colon and line, a hit a line; anything else is a note and is left out."""
    hits = list[Hit]()
    for line in printed.split("\n"):
        path, nul, rest = line.partition("\0")
        number, colon, text = rest.partition(":")
        if nul and colon and number.isdecimal():
            hits.append(Hit(path.removeprefix("./"), int(number), text.rstrip("\r")))
    return hits
