"""Glob patterns over paths: `*`, `?` and `[…]` within a part, `**` for any number of folders, `{a,b}` alternatives."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from .errors import FilesError

MAX_ALTERNATIVES = 1000
_MAGIC = re.compile(r"[*?\[]")
_Part = Callable[[str], object]


def expand_braces(pattern: str) -> list[str]:
    """Return every alternative that `{a,b}` stands for; unbalanced braces and `{a}` are taken literally.

    Raises `FilesError` when there are more than 1000.
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        split = _first_braces(current)
        if split is None:
            done.append(current)
        else:
            before, choices, after = split
            waiting += [before + choice + after for choice in reversed(choices)]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise FilesError(f"the pattern has more than {MAX_ALTERNATIVES} alternatives.", path=pattern)
    return done


def _first_braces(pattern: str) -> tuple[str, list[str], str] | None:
    """Split at the first pair of braces that holds a comma: what is before, the choices, what is after."""
    for start in (at for at, char in enumerate(pattern) if char == "{"):
        depth, commas = 0, [start]
        for at in range(start, len(pattern)):
            char = pattern[at]
            depth += (char == "{") - (char == "}")
            if char == "," and depth == 1:
                commas.append(at)
            if depth == 0:
                if len(commas) == 1:
                    break
                bounds = zip(commas, [*commas[1:], at], strict=True)
                return pattern[:start], [pattern[left + 1 : right] for left, right in bounds], pattern[at + 1 :]
    return None


def split_commas(patterns: str) -> list[str]:
    """Split a comma-separated list; commas within braces belong to their pattern."""
    found, depth, start = list[str](), 0, 0
    for at, char in enumerate(patterns):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            found.append(patterns[start:at])
            start = at + 1
    found.append(patterns[start:])
    return [pattern.strip() for pattern in found if pattern.strip()]


@dataclass(frozen=True)
class Glob:
    """A compiled pattern of one alternative; `text` has '/' between its parts."""

    text: str

    @cached_property
    def _parts(self) -> tuple[_Part | None, ...]:
        """One matcher a part, None for `**`. `fnmatch` keeps the time linear in stars (atomic groups)."""
        parts = [part for part in self.text.split("/") if part not in ("", ".")]
        if parts and parts[-1] == "**":
            parts.append("*")
        return tuple(None if part == "**" else re.compile(fnmatch.translate(part)).match for part in parts)

    def matches(self, path: str) -> bool:
        """Tell whether a relative path is named by the pattern, in time proportional to both."""
        return _match(self._parts, path.split("/"))

    @property
    def start(self) -> str:
        """The leading folders that are spelt out, '.' for none: nothing outside them can match."""
        fixed: list[str] = []
        for part in self.text.split("/")[:-1]:
            if _MAGIC.search(part):
                break
            fixed.append(part)
        return "/".join(fixed) or "."


def _match(parts: Sequence[_Part | None], names: Sequence[str]) -> bool:
    """Match from the left; `reached[i]` says whether the first i parts can stand for the names so far."""
    reached = [True]
    for part in parts:
        reached.append(reached[-1] and part is None)
    for name in names:
        following = [False]
        for at, part in enumerate(parts):
            if part is None:
                following.append(reached[at + 1] or following[at])
            else:
                following.append(reached[at] and part(name) is not None)
        reached = following
    return reached[-1]
