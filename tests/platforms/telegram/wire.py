"""HTTP/1.1 on a loopback socket, with a hand on the connection: faults need to break it where a server would not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

PIECE = 65536  # bytes


@dataclass(frozen=True)
class Request:
    """One request; header names are lower case, `too_large` says that the body was thrown away."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    too_large: bool = False


class Connection:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self, limit: Callable[[str], int]) -> Request | None:
        """Return the next request, None at the end; a body over its path's limit, in bytes, is read and dropped."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        named = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in named}
        path, _, query = target.partition("?")
        body, too_large = await self._body(headers, limit(path))
        return Request(method, unquote(path), query, headers, body, too_large)

    async def _body(self, headers: Mapping[str, str], limit: int) -> tuple[bytes, bool]:
        kept, size = bytearray(), 0
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        left = await self._chunk() if chunked else int(headers.get("content-length", "0"))
        while left:
            piece = await self._reader.readexactly(min(left, PIECE))
            size, left = size + len(piece), left - len(piece)
            if size <= limit:
                kept += piece
            if chunked and not left:
                await self._reader.readexactly(2)
                left = await self._chunk()
        if chunked:
            await self._reader.readuntil(b"\r\n")
        return bytes(kept), size > limit

    async def _chunk(self) -> int:
        line = await self._reader.readuntil(b"\r\n")
        return int(line.split(b";")[0], 16)

    async def answer(
        self, status: int, body: bytes, *, kind: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer."""
        self._head(status, {"content-type": kind, "content-length": str(len(body)), **(headers or {})})
        self._writer.write(body)
        await self._writer.drain()

    async def json(self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a value."""
        await self.answer(status, json.dumps(value).encode(), headers=headers)

    async def half(self, body: bytes) -> None:
        """Send the first half of an answer and break off."""
        self._head(200, {"content-type": "application/json", "content-length": str(len(body))})
        self._writer.write(body[: len(body) // 2])
        await self._writer.drain()
        self.abort()

    def abort(self) -> None:
        """Break the connection without another byte."""
        self._writer.transport.abort()

    def close(self) -> None:
        """Close the connection after what was written."""
        self._writer.close()

    async def gone(self) -> None:
        """Wait until the client has left; to be used only while it waits for an answer."""
        while await self._reader.read(1):
            pass

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
