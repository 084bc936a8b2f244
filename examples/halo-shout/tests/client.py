"""A client of the protocol, and the far end that the contract plays."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from halo_kernel.testing import Posted

TOKEN = "a-token-of-the-tests"


class Line:
    """One connection: `async with Line(port, "ann") as ann`, which waits for the server, and says HELLO."""

    reader: StreamReader
    writer: StreamWriter

    def __init__(self, port: int, name: str = "", token: str = TOKEN) -> None:
        self._port = port
        self._name = name
        self._token = token

    async def __aenter__(self) -> Self:
        async with asyncio.timeout(5):
            while True:
                with suppress(ConnectionError):
                    self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
                    break
                await asyncio.sleep(0.02)
        if self._name:
            await self.say(f"HELLO {self._name} {self._token}")
            assert await self.read() == f"WELCOME {self._name}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    async def say(self, text: str) -> None:
        """Send a line."""
        self.writer.write(text.encode() + b"\n")
        await self.writer.drain()

    async def read(self) -> str:
        """Return the next line, '' at the end."""
        async with asyncio.timeout(5):
            return (await self.reader.readline()).decode().removesuffix("\n")

    async def message(self) -> str:
        """Return the next line of the agent, past others."""
        while not (line := await self.read()).startswith("<- "):
            assert line, "the connection ended"
        return line[3:]

    async def is_quiet(self) -> bool:
        """Tell whether nothing more has come."""
        await self.say("PING")
        return await self.read() == "PONG"


class Far:
    """The far end, for the contract: a connection for each name."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lines: dict[str, tuple[Line, asyncio.Task[None]]] = {}
        self._acks: list[str] = []
        self._posts: list[Posted] = []

    async def send(self, key: str, text: str, *, chat: str, thread: str = "") -> None:
        """Have a user write, over a new connection if theirs is gone."""
        if chat not in self._lines or self._lines[chat][1].done():
            line = await Line(self._port, chat).__aenter__()
            self._lines[chat] = line, asyncio.create_task(self._read(chat, line))
        with suppress(ConnectionError):
            await self._lines[chat][0].say(f"KEY {key} {text}")

    async def _read(self, chat: str, line: Line) -> None:
        with suppress(ConnectionError):
            while said := (await line.reader.readline()).decode().removesuffix("\n"):
                verb, _, rest = said.partition(" ")
                if verb == "OK":
                    self._acks.append(rest)
                elif verb == "<-":
                    self._posts.append(Posted(chat=chat, text=rest))
                elif verb == "<|":
                    self._posts[-1] = Posted(chat=chat, text=f"{self._posts[-1].text}\n{rest}")

    def acknowledged(self, key: str) -> int:
        """Return how often a message was taken in."""
        return self._acks.count(key)

    def posts(self) -> Sequence[Posted]:
        """Return what users got to see."""
        return self._posts

    async def cut(self) -> None:
        """Break every connection."""
        for line, reading in self._lines.values():
            reading.cancel()
            await asyncio.wait({reading})
            await line.__aexit__(None, None, None)
        self._lines.clear()

    async def silence(self) -> None:
        """It says nothing but messages."""
