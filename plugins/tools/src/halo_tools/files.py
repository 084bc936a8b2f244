"""`file_read`, `file_write`, `file_edit`, `file_list`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import BadInput
from halo_lib_files import SNIFFED, Entry, NoEdit, NotText, Root, looks_binary, replace_literal, window

from .work import Work, describe

READ_WHOLE = 2 * 1024 * 1024
EDIT_LIMIT = 64 * 1024 * 1024
LISTED = 500
NEVER_LISTED = ("node_modules", ".git")
ICONS = {"folder": "📁", "file": "📄", "link": "🔗", "other": "📄"}
_NOTE = 200  # characters kept free for the line that says how to go on
_NUMBER = 8  # characters that a line's number takes with its tab and line end

Path = Annotated[
    str, Meta(min_length=1, max_length=4096, description="Relative to the workspace, absolute, or from ~/.")
]


class ReadArguments(Struct, forbid_unknown_fields=True):
    """What `file_read` takes."""

    path: Path
    offset: Annotated[int, Meta(ge=1, description="First line to show, from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines to show at most.")] = 2000


class WriteArguments(Struct, forbid_unknown_fields=True):
    """What `file_write` takes."""

    path: Path
    content: Annotated[str, Meta(description="The whole new content.")]


class EditArguments(Struct, forbid_unknown_fields=True):
    """What `file_edit` takes."""

    path: Path
    old_string: Annotated[str, Meta(description="The text to replace, exactly as in the file.")]
    new_string: Annotated[str, Meta(description="The text to put there; taken literally.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class ListArguments(Struct, forbid_unknown_fields=True):
    """What `file_list` takes."""

    path: Path = "."
    recursive: Annotated[bool, Meta(description="List everything below, up to 500 entries.")] = False


READ = describe(
    "file_read",
    "Read a text file. Shows numbered lines; long files in pieces, use offset to go on. Binary files are refused.",
    ReadArguments,
)
WRITE = describe(
    "file_write",
    "Write a file, replacing it if there is one. Folders above it are made. To change a part, use file_edit.",
    WriteArguments,
    write=True,
)
EDIT = describe(
    "file_edit",
    "Replace an exact piece of text in a file. old_string must be there once, unless replace_all is set.",
    EditArguments,
    write=True,
)
LIST = describe(
    "file_list",
    "List a folder: 📁 folders, 📄 files, 🔗 links that lead out of the workspace. node_modules and .git are left out.",
    ListArguments,
)


async def file_read(work: Work[ReadArguments]) -> str:
    """Show a window of a file's lines."""
    asked = work.arguments
    ranged = work.given("offset") or work.given("limit")
    room = work.place.settings.result_chars - _NOTE

    def do(check: Callable[[], None]) -> str:
        with work.reach.open(asked.path) as (root, path), root.open(path) as file:
            size = os.fstat(file.fileno()).st_size
            if looks_binary(file.read(SNIFFED)):
                raise NotText(f"{asked.path} is a binary file of {size} bytes.", path=asked.path)
            if size > READ_WHOLE and not ranged:
                raise BadInput(f"{asked.path} has {size} bytes, over 2 MB: give offset and limit.", field="limit")
            file.seek(0)
            seen = window(file, first=asked.offset, limit=asked.limit, chars=room, margin=_NUMBER)
        if not seen.lines:
            return f"(empty: file has {seen.total} lines, offset={asked.offset} is past end)"
        shown = [f"{number:>6}\t{line}" for number, line in enumerate(seen.lines, seen.first)]
        if seen.left:
            shown.append(f"... {seen.left} more line(s) — use offset={seen.first + len(seen.lines)} to continue.")
        return "\n".join(shown)

    return await work.in_thread(do)


async def file_write(work: Work[WriteArguments]) -> str:
    """Put a file in place."""
    asked = work.arguments
    data = _encode(asked.content, "content")

    def do(check: Callable[[], None]) -> str:
        with work.reach.open(asked.path, write=True) as (root, path):
            root.write(path, data)
        return f"File written: {asked.path}"

    return await work.in_thread(do)


async def file_edit(work: Work[EditArguments]) -> str:
    """Replace a literal piece of a file; bytes that are not UTF-8 stay as they are."""
    asked = work.arguments
    _encode(asked.new_string, "new_string")

    def change(data: bytes) -> bytes:
        if looks_binary(data):
            raise NotText(f"{asked.path} is a binary file.", path=asked.path)
        text = data.decode("utf-8", "surrogateescape")
        try:
            edited = replace_literal(text, asked.old_string, asked.new_string, every=asked.replace_all)
        except NoEdit as error:
            raise NoEdit(f"{asked.path}: {error}", path=asked.path) from error
        return edited.encode("utf-8", "surrogateescape")

    def do(check: Callable[[], None]) -> str:
        with work.reach.open(asked.path, write=True) as (root, path):
            there = root.find(path)
            if there is not None and there.size > EDIT_LIMIT:
                raise BadInput(f"{asked.path} has {there.size} bytes, too many to edit.", field="path")
            root.edit(path, change)
        return f"File edited: {asked.path}"

    return await work.in_thread(do)


async def file_list(work: Work[ListArguments]) -> str:
    """List a folder, or all below it."""
    asked = work.arguments

    def do(check: Callable[[], None]) -> str:
        with work.reach.open(asked.path) as (root, path):
            if not asked.recursive:
                found = [(entry.name, entry) for entry in root.entries(path) if not _left_out(entry)]
                return _listing(found, work.place.settings.result_chars)
            return _listing(_below(root, path, check), work.place.settings.result_chars)

    return await work.in_thread(do)


def _below(root: Root, path: str, check: Callable[[], None]) -> list[tuple[str, Entry]]:
    start = root.find(path)
    prefix = "" if start is None or start.path == "." else start.path + "/"
    walk = root.walk(path, skip=_left_out, check=check)
    return [(entry.path.removeprefix(prefix), entry) for entry in islice(walk, LISTED + 1)]


def _left_out(entry: Entry) -> bool:
    return entry.name in NEVER_LISTED


def _listing(found: Iterable[tuple[str, Entry]], room: int) -> str:
    lines = [f"{ICONS[entry.kind]} {printable(name)}" for name, entry in found]
    return joined(lines, limit=LISTED, room=room, note="[truncated]") or "(empty folder)"


def joined(lines: list[str], *, limit: int, room: int, note: str) -> str:
    """Join at most `limit` lines and `room` characters; `note` follows when that is not all."""
    shown, used = list[str](), len(note)
    for line in lines[:limit]:
        used += len(line) + 1
        if used > room:
            break
        shown.append(line)
    if len(shown) < len(lines):
        shown.append(note)
    return "\n".join(shown)


def printable(name: str) -> str:
    """Return a file's name as text on one line: bytes that are not UTF-8 and line ends are shown escaped."""
    name = os.fsencode(name).decode("utf-8", "backslashreplace")
    return name.replace("\r", "\\r").replace("\n", "\\n")


def _encode(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"the argument {field} holds half of a character: {error.reason}.", field=field) from error
