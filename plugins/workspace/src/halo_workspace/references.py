"""`@file path` in a message: the file's text takes its place, for the model alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from html import escape

from msgspec.structs import replace as changed

from halo_kernel import Access, PreparedInput
from halo_lib_files import FilesError, Missing, Outside, Refused, Root, WrongKind, looks_binary

from .files import refuse_databases

LONGEST = 100 * 1024
MOST = 20
_REFERENCE = re.compile(r"(?<![^\s(（「“])@file[ \t]+(?:\"([^\"\n]+)\"|'([^'\n]+)'|`([^`\n]+)`|(\S+))")
_TRAILING = ".,;:!?)]}\"'，。；：！？）」”、"


def prepare(batch: Sequence[PreparedInput], *, folder: str, home: str, access: Access) -> list[PreparedInput]:
    """Return the rows with their arrival before what the model sees, and files in the place of references."""
    expanded = [expand(row.content, folder=folder, home=home, access=access) for row in batch]
    return stamped([changed(row, content=text) for row, text in zip(batch, expanded, strict=True)])


def stamped(batch: Sequence[PreparedInput]) -> list[PreparedInput]:
    """Return the rows with their arrival before what the model sees."""
    return [changed(row, content=f"[{row.stamp}] {row.content}") if row.stamp else row for row in batch]


def expand(text: str, *, folder: str, home: str, access: Access) -> str:
    """Return `text` with each reference replaced by `<file path="…">` and the file's text, or by why there is none.

    Only the workspace at `folder` is read, never through a link that leads out of it. A text of more than 100 KB is cut
    and says so; at most 20 files are read. Below `full` access hidden files and folders are not read.
    """
    if _REFERENCE.search(text) is None:
        return text
    seen: list[str] = []

    def replace(match: re.Match[str]) -> str:
        quoted = match[1] or match[2] or match[3]
        seen.append(match[0])
        if len(seen) > MOST:
            return f"[not read: {quoted or match[4]}, more than {MOST} files]"
        if quoted:
            return reader.block(quoted) or f"[not found: {quoted}]"
        return _unquoted(match[4], reader.block)

    with Root(folder, refuse=_Refuse(home=home, access=access, folder=os.path.realpath(folder))) as root:
        reader = _Reader(root)
        return _REFERENCE.sub(replace, text)


def _unquoted(path: str, block: Callable[[str], str]) -> str:
    """Try a path as it stands, then without the punctuation of the sentence around it."""
    bare = path.rstrip(_TRAILING)
    for name in dict.fromkeys((path, bare)):
        if name and (found := block(name)):
            return found + path[len(name) :]
    return f"[not found: {bare or path}]{path[len(bare) :] if bare else ''}"


class _Refuse:
    """What a reference never reads: databases, Halo's secrets, and below `full` access whatever is hidden."""

    def __init__(self, *, home: str, access: Access, folder: str) -> None:
        self._secrets = os.path.realpath(os.path.join(home, "secrets"))
        self._access = access
        self._folder = folder

    def __call__(self, where: str | int, status: os.stat_result | None) -> str:
        if isinstance(where, str):
            if f"{where}/".startswith(f"{self._secrets}/"):
                return "holds secrets"
            inside = os.path.relpath(where, self._folder).split(os.sep)
            if self._access != "full" and any(part.startswith(".") and part != "." for part in inside):
                return f"is hidden at {self._access} access"
        return refuse_databases(where, status)


class _Reader:
    def __init__(self, root: Root) -> None:
        self._root = root

    def block(self, path: str) -> str:
        """Return what stands for one file in the text; empty when nothing has that name."""
        inside = os.path.relpath(path, self._root.path) if os.path.isabs(path) else path
        try:
            data = self._root.read(inside, LONGEST + 1)
            size = self._root.find(inside)
        except Missing:
            return ""
        except WrongKind:
            return f"[not a file: {path}]"
        except Outside:
            return f"[outside the workspace: {path}]"
        except Refused:
            return f"[not readable here: {path}]"
        except FilesError as error:
            return f"[not readable: {path}: {error}]"
        if looks_binary(data):
            return f"[not text: {path}]"
        return _wrapped(os.path.normpath(inside), data, size.size if size else len(data))


def _wrapped(path: str, data: bytes, size: int) -> str:
    text = data[:LONGEST].decode("utf-8", "ignore" if len(data) > LONGEST else "replace")
    note = f"\n[cut: the first {LONGEST} of {size} bytes]" if len(data) > LONGEST else ""
    return f'<file path="{escape(path)}">\n{text.rstrip(chr(10))}{note}\n</file>'
