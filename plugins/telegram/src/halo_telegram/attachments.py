"""Files on their way out: which ones may leave, and as what Telegram shows them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from halo_kernel import Account, is_own_file
from halo_lib_files import FilesError, Root

from .bot import Upload

LIMIT = 50 * 1024 * 1024
PHOTO_LIMIT = 10 * 1024 * 1024
"""Bytes. Source: https://core.telegram.org/bots/api#sending-files"""
_METHODS = {
    "photo": {".jpg", ".jpeg", ".png", ".webp"},
    "video": {".mp4", ".mov", ".m4v", ".webm", ".avi"},
    "voice": {".ogg", ".oga", ".opus"},
    "animation": {".gif"},
}


class NotSent(Exception):
    """A file that may not leave, or cannot; its text is for people."""


@dataclass(frozen=True)
class Gate:
    """Who may not be opened: our databases, the home with its secrets, a workspace's own folder but for its assets."""

    home: str
    workspace: str

    def __call__(self, where: str | int, status: os.stat_result | None) -> str:
        """See `halo_lib_files.Refuse`."""
        if is_own_file(where):
            return "is a database of Halo"
        if isinstance(where, int):
            return ""
        own, inside = os.path.join(self.workspace, ".halo"), _is_below(where, self.workspace)
        is_own = _is_below(where, own) and where != own and not _is_below(where, os.path.join(own, "assets"))
        is_home = _is_below(where, self.home) and not (inside and _is_below(self.workspace, self.home))
        return "is Halo's own" if is_own or is_home else ""


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def read(path: str, account: Account, *, home: Path) -> bytes:
    """Return what is in a file of the account's workspace, for an account with full access of any place.

    Raises `NotSent`.
    """
    workspace = os.path.realpath(account.workspace)
    where = os.path.normpath(os.path.join(workspace, path))
    folder = os.sep if account.access == "full" else workspace
    try:
        if not _is_below(where, folder) and folder != os.sep:
            raise NotSent("it is outside of the workspace")
        with Root(folder, refuse=Gate(os.path.realpath(home), workspace)) as root:
            data = root.read(os.path.relpath(where, folder), LIMIT + 1)
    except FilesError as error:
        raise NotSent(str(error)) from error
    if not data:
        raise NotSent("it is empty")
    if len(data) > LIMIT:
        raise NotSent(f"it is larger than {LIMIT // 2**20} MB")
    return data


def as_document(path: str, data: bytes) -> Upload:
    """Return a file as what can be fetched and nothing more."""
    return Upload(field="document", name=os.path.basename(path), data=data)


def shown(path: str, data: bytes) -> Upload:
    """Return a file as what its name says that it is."""
    suffix = os.path.splitext(path)[1].lower()
    field = next((field for field, suffixes in _METHODS.items() if suffix in suffixes), "document")
    if field == "photo" and len(data) > PHOTO_LIMIT:
        field = "document"
    return Upload(field=field, name=os.path.basename(path), data=data)
