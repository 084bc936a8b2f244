"""Files that come with a message: where they are kept in the workspace, and the line that tells the agent of one.

The lines are the same in each language: pages read them.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import re
import time
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from halo_lib_files import FilesError, Root

from .bot import Bot, BotError
from .updates import File, Message, Stored

LIMIT = 20 * 1024 * 1024
"""Bytes that a bot can fetch. Source: https://core.telegram.org/bots/api#getfile"""
_NAME = 120
_HEADS = {b"\x89PNG": ".png", b"GIF8": ".gif", b"RIFF": ".webp"}
Kind = Literal["image", "file", "voice", "video"]


@dataclass(frozen=True)
class Attached:
    """A file of a message; `at` is when it was sent, in UTC seconds."""

    kind: Kind
    file: File
    at: int

    @property
    def name(self) -> str:
        """What people call it."""
        return self.file.file_name or self.kind

    def path(self, account: str, data: bytes) -> str:
        """Return where it lies in the workspace; the same file of the same message lies there once."""
        when, mark = time.localtime(self.at), hashlib.sha256(self.file.file_unique_id.encode()).hexdigest()[:6]
        stamp = f"{time.strftime('%H%M%S', when)}_{mark}"
        own = re.sub(r"[^\w.-]", "_", PurePosixPath(self.file.file_name).name)[-_NAME:]
        name = f"{stamp}_{own}" if own else f"{self.kind}_{stamp}{self._suffix(data)}"
        return f".halo/assets/telegram/inbound/{account}/{time.strftime('%Y-%m-%d', when)}/{name}"

    def _suffix(self, data: bytes) -> str:
        if self.kind == "image":
            return _HEADS.get(data[:4], ".jpg")
        return mimetypes.guess_extension(self.file.mime_type) or {"voice": ".ogg", "video": ".mp4"}.get(
            self.kind, ".bin"
        )

    def saved(self, path: str) -> str:
        """Return the line that says where it is."""
        match self.kind:
            case "image":
                return f"[图片已保存: {path}]"
            case "voice":
                return f"[语音 {self.file.duration}s 已保存: {path}]"
            case "video":
                return f"[视频已保存: {path}]"
            case _:
                return f'[文件 "{self.name}" 已保存: {path}]'

    def failed(self, why: str) -> str:
        """Return the line that says why it is not there."""
        what = {"image": "图片", "voice": "语音", "video": "视频"}.get(self.kind, f'文件 "{self.name}" ')
        return f"[{what}下载失败: {why}]"


def attached(message: Message) -> Attached | None:
    """Return the file of a message: a photo in its largest size."""
    kinds: list[tuple[Kind, File | None]] = [
        ("image", max(reversed(message.photo), key=lambda each: each.file_size, default=None)),
        ("video", message.animation or message.video or message.video_note),
        ("voice", message.voice),
        ("file", message.audio or message.document),
    ]
    return next((Attached(kind, file, message.date) for kind, file in kinds if file), None)


async def fetch(bot: Bot, found: Attached, *, workspace: str, account: str) -> str:
    """Fetch a file into the workspace and return the line for the agent, which says too when that failed."""
    try:
        stored = await bot.call("getFile", Stored, {"file_id": found.file.file_id})
        data = await bot.download(stored.file_path, limit=LIMIT)
        path = found.path(account, data)
        await asyncio.to_thread(_write, workspace, path, data)
    except (BotError, FilesError) as error:
        return found.failed(str(error))
    return found.saved(path)


def _write(workspace: str, path: str, data: bytes) -> None:
    with Root(workspace) as root:
        root.write(path, data)
