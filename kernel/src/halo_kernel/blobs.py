"""Large values beside the journal: files that are named by their content, and are whole or not there."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterable, Callable, Collection
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from .contracts import Clock, Database, Tx
from .errors import NotFound, StorageUnavailable, WorkspaceUnusable
from .locks import locked
from .records import BlobRef
from .secrets import replacing, sync_folder
from .sqlite import is_own_file

KEPT_MS = 24 * 3_600_000
SOON_SECONDS = 60.0
SWEEP_SECONDS = 3600.0
_TEXTS = dict.fromkeys(("partials", "inbox", "outbox", "parts"), "text")
_PLACES = {**_TEXTS, "events": "body", "plugin_state": "value", "questions": "arguments || text || answer"}
_REFERENCE = re.compile(r"blob:([0-9a-f]{64})")
_FILE = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\..+")  # a blob, or the draft of one
_LOCK = ".blobs.lock"  # puts and backups, in all processes, share it; a collection has it alone


def referenced(tx: Tx) -> set[str]:
    """Return the hashes that a workspace's rows name as `blob:<sha256>`, whatever kind of row or event it is."""
    found: set[str] = set()
    for table, texts in _PLACES.items():
        for (text,) in tx.execute(f"SELECT {texts} FROM {table} WHERE {texts} LIKE '%blob:%'"):
            found |= named_in(text)
    return found


def named_in(text: str) -> set[str]:
    """Return the hashes that a text names."""
    return set(_REFERENCE.findall(text))


class Blobs:
    """Images, long results and the like: files of a workspace, named by their content.

    Put one before the event that names it by its `uri`. It is removed 24 hours later when no event, waiting input or
    undelivered part names it then.

    `folder_of` gives a workspace's path by id.
    """

    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        self._folder_of = folder_of

    async def put(self, workspace: str, data: bytes | AsyncIterable[bytes], *, media_type: str) -> BlobRef:
        """Make a value durable and return its reference. What is there already counts as new again.

        Raises `StorageUnavailable`, and nothing is left; `WorkspaceUnusable` when its folder is not one.
        """
        if not isinstance(data, bytes):
            data = b"".join([chunk async for chunk in data])
        name = await asyncio.to_thread(_store, self._folder(workspace), data)
        return BlobRef(uri=f"blob:{name}", size=len(data), media_type=media_type)

    async def get(self, workspace: str, uri: str) -> bytes:
        """Return the value of `blob:<sha256>`, checked. Raises `NotFound` when it is gone or damaged."""
        if not _REFERENCE.fullmatch(uri):
            raise NotFound(f"{uri!r} names no blob")
        return await asyncio.to_thread(_read, self._folder(workspace) / uri.removeprefix("blob:"))

    def hold(self, workspace: str) -> AbstractContextManager[None]:
        """Keep every value, in all processes, for as long as the context lasts: a backup copies them."""
        return locked(self._folder(workspace) / _LOCK, shared=True)

    async def collect(self, workspace: str, named: Collection[str], now: int, *, erased: Collection[str] = ()) -> int:
        """Remove what is not `named` once it is 24 hours old, or at once if it was `erased`; return how many files.

        `named` is what `referenced` found just before, `now` UTC milliseconds. What a backup holds stays.
        """
        return await asyncio.to_thread(_collect, self._folder(workspace), named, now - KEPT_MS, erased)

    async def sweep(self, workspace: str, database: Database, clock: Clock) -> None:
        """Collect a minute from now and then every hour, for as long as this runs."""
        await asyncio.sleep(SOON_SECONDS)
        while True:
            await self.collect(workspace, await database.read(referenced), clock.now())
            await asyncio.sleep(SWEEP_SECONDS)

    def _folder(self, workspace: str) -> Path:
        """Return the folder of a workspace's blobs, made if need be; a link could lead out of the workspace."""
        folder = self._folder_of(workspace) / ".halo" / "assets"
        with suppress(OSError):  # whoever needs it says so
            folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise WorkspaceUnusable(f"{folder} is a link; it must be a folder")
        return folder


def _store(folder: Path, data: bytes) -> str:
    """Write a value under its name; one that is there is replaced by itself, so its age starts anew."""
    name = hashlib.sha256(data).hexdigest()
    try:
        with locked(folder / _LOCK, shared=True), replacing(folder / name, mode=0o400) as draft:
            draft.write_bytes(data)
        sync_folder(folder.parent)
    except OSError as error:
        raise StorageUnavailable(f"{folder} takes nothing: {error.strerror}") from error
    return name


def _read(path: Path) -> bytes:
    data = b""
    with suppress(OSError):
        if path.is_file() and not is_own_file(path):
            data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != path.name:
        raise NotFound(f"the blob {path.name} is missing or damaged")
    return data


def _collect(folder: Path, named: Collection[str], oldest: int, erased: Collection[str]) -> int:
    removed = 0
    for path in folder.iterdir():
        if path.name not in named and _FILE.fullmatch(path.name):
            with suppress(OSError), locked(folder / _LOCK, patience=0):
                if path.name in erased or path.lstat().st_mtime_ns < oldest * 1_000_000:
                    path.unlink()
                    removed += 1
    return removed
