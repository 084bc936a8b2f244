"""Files: kept once, known to each bot by numbers of its own, fetched by a path."""

from __future__ import annotations

import hashlib
import mimetypes
import struct
from dataclasses import dataclass, field
from typing import Any

from .arguments import Upload
from .refusals import bad_request

FOLDERS = {
    "photo": "photos",
    "document": "documents",
    "voice": "voice",
    "video": "videos",
    "audio": "music",
    "video_note": "video_notes",
}
SIZES = (90, 320, 800, 1280)
"""The longer sides, in pixels, that a photo is shown in."""


@dataclass(frozen=True)
class Stored:
    """A file's bytes and its description in a message."""

    id: str
    kind: str
    data: bytes
    path: str
    record: dict[str, Any]


@dataclass
class Files:
    """The files that one bot knows."""

    bot: int
    known: dict[str, Stored] = field(default_factory=dict)
    paths: dict[str, Stored] = field(default_factory=dict)

    def keep(self, kind: str, upload: Upload, **more: Any) -> Any:
        """Keep a file; return what a message has in the field `kind` (of a photo its sizes)."""
        if kind == "photo":
            width, height = picture_size(upload.data)
            sizes = [each for each in SIZES if each < max(width, height)] + [max(width, height)]
            return [self._photo(upload, size, width, height) for size in sizes[-4:]]
        described: dict[str, Any] = (
            {"file_name": upload.filename} if kind in ("document", "video", "audio") and upload.filename else {}
        )
        if kind == "video":
            described |= {"width": 640, "height": 360}
        if kind in ("voice", "video", "audio", "video_note"):
            described |= {"duration": 1}
        if kind == "video_note":
            described |= {"length": 240}
        else:
            described |= {"mime_type": upload.mime}
        return self._stored(kind, upload, described | more).record

    def _photo(self, upload: Upload, size: int, width: int, height: int) -> dict[str, Any]:
        share = size / max(width, height)
        shown = {"width": max(1, round(width * share)), "height": max(1, round(height * share))}
        return self._stored("photo", upload, shown).record

    def _stored(self, kind: str, upload: Upload, described: dict[str, Any]) -> Stored:
        number = len(self.known)
        unique = hashlib.sha256(upload.data + repr(described).encode()).hexdigest()[:16]
        file_id = f"{kind[:2].upper()}{self.bot % 9973:04}{number:05}{unique}"
        extension = ".jpg" if kind == "photo" else _extension(upload)
        path = f"{FOLDERS[kind]}/file_{number}{extension}"
        record = {"file_id": file_id, "file_unique_id": unique, "file_size": len(upload.data)} | described
        stored = Stored(file_id, kind, upload.data, path, record)
        self.known[file_id] = self.paths[path] = stored
        return stored

    def share(self, other: Files, attached: Any) -> None:
        """Know a file that another bot in the same chat was sent too."""
        for record in attached if isinstance(attached, list) else [attached]:
            stored = other.known[record["file_id"]]
            self.known[stored.id] = self.paths[stored.path] = stored

    def found(self, file_id: str, *, wrong: str) -> Stored:
        """Return a file that the bot may use, or refuse with `wrong`."""
        if file_id not in self.known:
            raise bad_request(wrong)
        return self.known[file_id]


def _extension(upload: Upload) -> str:
    name, dot, extension = upload.filename.rpartition(".")
    if name and dot and extension.isalnum():
        return f".{extension}"
    return mimetypes.guess_extension(upload.mime) or ""


def picture_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, GIF, JPEG or WebP, else refuse it as the platform does."""
    try:
        size = _size(data)
    except (struct.error, IndexError):
        size = None
    if size is None:
        raise bad_request("IMAGE_PROCESS_FAILED")
    if 0 in size or sum(size) > 10_000 or max(size) > 20 * min(size):
        raise bad_request("PHOTO_INVALID_DIMENSIONS")
    return size


def _size(data: bytes) -> tuple[int, int] | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", data[16:24])
    elif data[:6] in (b"GIF87a", b"GIF89a"):
        width, height = struct.unpack("<HH", data[6:10])
    elif data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    elif data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
    elif data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8 ":
        width, height = (each & 0x3FFF for each in struct.unpack("<HH", data[26:30]))
    elif data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        return None
    return width, height


def _jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while data[place] == 0xFF:
        marker, size = data[place + 1], struct.unpack(">H", data[place + 2 : place + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        place += 2 + size
    return None
