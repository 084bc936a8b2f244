"""Files that come with a message: checked, saved in the workspace, and named in the message's text."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import mimetypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import BadInput, StorageUnavailable, TooLarge, is_own_file
from halo_lib_files import FilesError, Root

from .callers import Caller

INBOUND = ".halo/assets/web/inbound"
_MAGIC = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF8": "image/gif",
}
_WORDS = re.compile(r"[^\w.-]+")
_KINDS = {"image": "图片", "video": "视频", "audio": "语音"}


class Image(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A picture, in base64."""

    data: str
    mime_type: Annotated[str, Meta(max_length=100)] = ""


class File(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Any file, in base64."""

    data: str
    name: Annotated[str, Meta(max_length=255)] = ""
    mime_type: Annotated[str, Meta(max_length=100)] = ""


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A file that was checked: `kind` is image, video, audio or file."""

    data: bytes
    name: str
    mime_type: str

    @property
    def kind(self) -> str:
        """What it is to a person: the first half of its media type, if that says so."""
        family = self.mime_type.partition("/")[0]
        return family if family in _KINDS else "file"


def sniffed(data: bytes, default: str) -> str:
    """Return what the first bytes of a picture say it is; what is declared is not trusted."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), default)


def check(images: Sequence[Image], files: Sequence[File], *, limit: int) -> list[Upload]:
    """Return what came with a message. Raises `BadInput`, `TooLarge` naming the field."""
    found: list[Upload] = []
    for number, image in enumerate(images):
        data = _decoded(image.data, f"images[{number}].data", limit)
        found.append(Upload(data=data, name="", mime_type=sniffed(data, "image/jpeg")))
    for number, file in enumerate(files):
        data = _decoded(file.data, f"files[{number}].data", limit)
        guessed = file.mime_type or mimetypes.guess_type(file.name)[0] or ""
        found.append(Upload(data=data, name=file.name, mime_type=sniffed(data, guessed)))
    return found


def _decoded(text: str, field: str, limit: int) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"{field} is not base64: {error}", field=field) from error
    if not data:
        raise BadInput(f"{field} is empty", field=field)
    if len(data) > limit:
        raise TooLarge(f"{field} has more than the {limit} bytes that a file may have", limit=limit, field=field)
    return data


async def save(caller: Caller, uploads: Sequence[Upload], *, now: int) -> list[str]:
    """Write files durably into the caller's workspace, and return the line that names each in the message.

    One that was written on the same day already is not written again. Raises `StorageUnavailable`.
    """
    return await asyncio.to_thread(_save, caller, uploads, datetime.fromtimestamp(now / 1000)) if uploads else []


def _save(caller: Caller, uploads: Sequence[Upload], now: datetime) -> list[str]:
    folder = f"{INBOUND}/{caller.account.id}/{now:%Y-%m-%d}"
    try:
        with Root(caller.workspace.path, refuse=_refuse_own) as root:
            return [_marker(each, _place(root, folder, each, now)) for each in uploads]
    except FilesError as error:
        raise StorageUnavailable(f"the file could not be saved: {error}") from error


def _place(root: Root, folder: str, upload: Upload, now: datetime) -> str:
    """Return the path at which the file lies."""
    digest = hashlib.sha256(upload.data).hexdigest()[:6]
    clean = _clean(upload.name)
    time = f"{now:%H%M%S}"
    ending = mimetypes.guess_extension(upload.mime_type) or ".bin"
    before, after = ("", f"_{digest}_{clean}") if clean else (f"{upload.kind}_", f"_{digest}{ending}")
    if root.find(folder) is not None:
        for entry in root.entries(folder):
            is_like = entry.name.startswith(before) and entry.name.endswith(after) and entry.size == len(upload.data)
            if is_like and root.read(entry.path) == upload.data:
                return entry.path
    path = f"{folder}/{before}{time}{after}"
    root.write(path, upload.data)
    return path


def _clean(name: str) -> str:
    return _WORDS.sub("_", name.replace("\\", "/").rpartition("/")[2])[-120:].strip("._")


def _marker(upload: Upload, path: str) -> str:
    if upload.kind == "file":
        return f'[文件 "{_clean(upload.name) or "file"}" 已保存: {path}]'
    return f"[{_KINDS[upload.kind]}已保存: {path}]"


def _refuse_own(where: str | int, status: os.stat_result | None) -> str:
    return "is one of Halo's own databases" if is_own_file(where) else ""
