"""Which file or folder a name means, found with the tools that list and match."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from .desk import Desk, NotOffered, Waiting
from .results import Entry, Listing, read_listing, read_paths

_DEEPEST = 12
_SHORTEST_WORD = 4
_MOST_NEAR = 5
_OUTSIDE = re.compile(r"[/~]|[A-Za-z]:[/\\]|(?:.*/)?\.\.(?:/|$)")


@dataclass(frozen=True)
class Found:
    """A path of the workspace; `others` are further files of the same name."""

    path: str
    folder: bool
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Missing:
    """A name that nothing has; `near` are names that look like it."""

    name: str
    near: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unlisted:
    """A folder that could not be listed, in the tool's own words."""

    path: str
    reason: str


def list_folder(desk: Desk, path: str) -> Listing | Unlisted:
    """List one folder. Raises `Waiting`, `NotOffered`."""
    result = desk.ask("file_list", path=path or ".")
    return Unlisted(path, result.text) if result.failed else read_listing(result.text)


def known_names(desk: Desk, text: str) -> tuple[str, ...]:
    """Return the paths in the workspace's own folder, and in each folder that `text` mentions with a slash."""
    names: list[str] = []
    folders = [""]
    for folder in folders:
        for entry in _entries(desk, folder):
            path = _join(folder, entry.name)
            names.append(path)
            if entry.folder and f"{path}/".casefold() in text.casefold() and path.count("/") < _DEEPEST:
                folders.append(path)
    return tuple(names)


def find_path(desk: Desk, name: str) -> Found | Missing:
    """Find what `name` means: the path itself, then the same in another case, without its extension, or deeper.

    Raises `Waiting` while a tool has to be asked first. Without `file_list` the name is taken as it stands.
    """
    wanted = name.strip().replace("\\", "/").removeprefix("./").rstrip("/")
    if _OUTSIDE.match(name.strip()) or not desk.offers("file_list"):
        return Found(wanted or name.strip(), False)
    if wanted in ("", "."):
        return Found("", True)
    return _walk(desk, wanted) or _match_anywhere(desk, wanted)


def _walk(desk: Desk, wanted: str) -> Found | None:
    folder, parts = "", wanted.split("/")[:_DEEPEST]
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        entries = [entry for entry in _entries(desk, folder) if is_last or entry.folder]
        entry = _best(entries, part, stems=is_last)
        if entry is None:
            return None
        folder = _join(folder, entry.name)
        if is_last:
            return Found(folder, entry.folder)
    return None


def _match_anywhere(desk: Desk, wanted: str) -> Found | Missing:
    base = wanted.rsplit("/", 1)[-1]
    paths: Sequence[str] = ()
    if desk.offers("glob"):
        result = desk.ask("glob", pattern=f"**/*{glob_escape(base)}*")
        paths = () if result.failed else read_paths(result.text)
    same = [path for path in paths if _rank(path.rsplit("/", 1)[-1], base, stems=True) is not None]
    if not same and len(paths) == 1 and len(base) >= _SHORTEST_WORD:
        return Found(paths[0], False)
    if not same:
        return Missing(wanted, _near(desk, base, paths))
    same.sort(key=lambda path: (_rank(path.rsplit("/", 1)[-1], base, stems=True), path.count("/"), path))
    return Found(same[0], False, tuple(same[1:6]))


def _near(desk: Desk, base: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that hold the name, else names of the workspace's own folder that look like it."""
    if paths:
        return tuple(paths[:_MOST_NEAR])
    folded = {entry.name.casefold(): entry.name for entry in _entries(desk, "")}
    close = difflib.get_close_matches(base.casefold(), folded, n=_MOST_NEAR, cutoff=0.6)
    return tuple(folded[name] for name in close)


def _entries(desk: Desk, folder: str) -> tuple[Entry, ...]:
    listing = list_folder(desk, folder)
    return listing.entries if isinstance(listing, Listing) else ()


def _best(entries: Sequence[Entry], name: str, *, stems: bool) -> Entry | None:
    ranked = [
        (rank, entry.folder, entry.name, entry) for entry in entries if (rank := _rank(entry.name, name, stems=stems))
    ]
    return min(ranked, key=lambda each: each[:3])[3] if ranked else None


def _rank(name: str, wanted: str, *, stems: bool) -> int | None:
    """Return how well a name fits, best first: itself, another case or form, its stem; None when it does not."""
    if name == wanted:
        return 1
    folded, other = _folded(name), _folded(wanted)
    if folded == other:
        return 2
    if stems and "." not in other and folded.rpartition(".")[0] == other:
        return 3 if folded.endswith((".md", ".txt", ".rst")) else 4
    return None


def fits(name: str, wanted: str) -> bool:
    """Tell whether `wanted` may mean `name`: itself, another case or form, or its stem."""
    return _rank(name, wanted, stems=True) is not None


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def glob_escape(text: str) -> str:
    """Return a glob pattern that matches `text` itself."""
    return re.sub(r"([*?\[\]{}!])", r"[\1]", text)


def names_or_none(desk: Desk, text: str) -> tuple[str, ...]:
    """Return `known_names`, none where the session has no `file_list`, or nothing yet while it has to run first."""
    try:
        return known_names(desk, text)
    except (NotOffered, Waiting):
        return ()
