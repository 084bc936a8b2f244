"""Readers of a session's stream over HTTP: those that read, and one that never does."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from .served import Served


class Reader:
    """Follows a session and notes the number of every event, how many turns ended, and what those say that failed."""

    def __init__(self, served: Served, path: str) -> None:
        self.seen: list[int] = []
        self.ends = 0
        self.failures: list[object] = []
        self._changed = asyncio.Event()
        self._served = served
        self._path = path

    async def run(self) -> None:
        """Read until cancelled or cut off."""
        address = urlsplit(self._served.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**22)
        try:
            writer.write(asking(self._served, self._path))
            async for line in reader:
                if line.startswith(b'data: {"seq"'):
                    self._note(json.loads(line[6:]))
        finally:
            writer.close()

    def _note(self, event: dict[str, Any]) -> None:
        self.seen.append(event["seq"])
        if event["kind"] == "turn.ended":
            self.ends += 1
            self.failures += [event["body"]] if event["body"]["outcome"] != "succeeded" else []
        self._changed.set()

    async def turns(self, count: int) -> None:
        """Return once so many turns have ended."""
        while self.ends < count:
            self._changed.clear()
            await self._changed.wait()


class Deaf:
    """A client that asks for a stream and never reads a byte of it."""

    def __init__(self, served: Served, path: str) -> None:
        address = urlsplit(served.url)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect((address.hostname, address.port))
        self._socket.sendall(asking(served, path))

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()


def asking(served: Served, path: str) -> bytes:
    """Return the request for a stream."""
    lines = (f"GET {path} HTTP/1.1", f"Host: {urlsplit(served.url).netloc}", f"Authorization: Bearer {served.token}")
    return "\r\n".join([*lines, "", ""]).encode()
