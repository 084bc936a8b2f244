"""One WebSocket of an app in Socket Mode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Upgrade
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from .messages import Json
from .web import Line

_ENDING = 1001


class Socket:
    """A socket that was taken; a `silent` one neither reads nor writes any more."""

    def __init__(self, name: str, app: str, line: Line) -> None:
        self.name = name
        self.app = app
        self.silent = False
        self.pings = 0
        self.unacked: dict[str, asyncio.Future[Any]] = {}
        self._line = line
        self._protocol = ServerProtocol()

    async def upgrade(self, head: bytes) -> bool:
        """Answer the request to upgrade; return whether it was one."""
        self._protocol.receive_data(head)
        asked = self._protocol.events_received()
        if asked and isinstance(asked[0], Upgrade):
            self._protocol.send_response(self._protocol.accept(asked[0]))
        await self._flush()
        return self.open

    @property
    def open(self) -> bool:
        """Whether frames can go out."""
        return self._protocol.state is OPEN

    async def run(self, heard: Callable[[Json], None], pinged: Callable[[], None]) -> None:
        """Read until it ends; give every message to `heard`, tell `pinged` of every ping, which is answered."""
        while data := await self._line.read():
            if self.silent:
                continue
            self._protocol.receive_data(data)
            for frame in self._protocol.events_received():
                if isinstance(frame, Frame):
                    self._take(frame, heard, pinged)
            await self._flush()
            if not self.open:
                return

    def _take(self, frame: Frame, heard: Callable[[Json], None], pinged: Callable[[], None]) -> None:
        if frame.opcode is Opcode.PING:
            self.pings += 1
            pinged()
        if frame.opcode is Opcode.TEXT:
            heard(json.loads(bytes(frame.data)))

    def send(self, message: Json) -> None:
        """Send one message, unless it is silent."""
        if self.open and not self.silent:
            self._protocol.send_text(json.dumps(message).encode())
            self._write()

    def send_half(self, message: Json) -> None:
        """Send the first half of a frame and break off."""
        self._protocol.send_text(json.dumps(message).encode())
        data = b"".join(self._protocol.data_to_send())
        self._line.write(data[: len(data) // 2])
        self._line.close()

    def ping(self) -> None:
        """Send a ping, unless it is silent."""
        if self.open and not self.silent:
            self._protocol.send_ping(b"Ping from " + self.name.encode())
            self._write()

    def close(self, code: int = _ENDING, reason: str = "") -> None:
        """Say goodbye and end."""
        if self.open:
            self._protocol.send_close(code, reason)
            self._write()
        self._line.close()

    def abort(self) -> None:
        """End without a word."""
        self._line.abort()

    def _write(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._line.write(data)

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._line.send(data)
