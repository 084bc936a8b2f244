"""A channel for tests, with a platform of its own: one JSON object a line over TCP, in both directions.

A client sends `{"id": …, "chat": …, "user": …, "text": …}`, in a thread with `"thread": …`. It gets `{"ack": id}` once
the message is durable, `{"nack": id, "error": …}`, or `{"refused": id}` when its user is not allowed. What is delivered
comes as `{"part": key, "chat": …, "thread": …, "text": …}` to every client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contracts import Door
from ..errors import DeliveryFailed, HaloError
from ..hookspecs import hook
from ..records import Account, Arrival, Guarantee, Part


@dataclass(eq=False)
class LineChannel:
    """The channel `line`, its dispatcher, and its plugin in one; `port` is where it listens, once it does."""

    type: str = "line"
    kind: str = "line"
    guarantee: Guarantee = "keyed"
    silence: float | None = 60.0
    limit: int = 200
    port: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _clients: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    _sent: set[str] = field(default_factory=set[str])

    @hook
    def provide_channels(self) -> Sequence[LineChannel]:
        """Itself."""
        return [self]

    @hook
    def provide_dispatchers(self) -> Sequence[LineChannel]:
        """Itself."""
        return [self]

    async def run(self, account: Account, door: Door) -> None:
        """Listen on a free port of this machine until cancelled."""

        serving: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(serve(reader, writer))
            serving.add(task)
            task.add_done_callback(serving.discard)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._clients.add(writer)
            try:
                while line := await reader.readline():
                    writer.write(await self._taken(door, line))
                    await writer.drain()
            finally:
                self._clients.discard(writer)
                writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", self.port)
        self.port = int(server.sockets[0].getsockname()[1])
        door.heard()
        self.ready.set()
        try:
            await asyncio.Event().wait()  # since 3.12 `serve_forever` waits for its clients when it is cancelled
        finally:
            self.ready.clear()
            server.close()
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

    async def _taken(self, door: Door, line: bytes) -> bytes:
        """Take one line in and return what its sender is told."""
        told: dict[str, Any] = json.loads(line)
        key = str(told.pop("id"))
        try:
            receipt = await door.arrive(Arrival(key=key, **told))
        except HaloError as error:
            return _line({"nack": key, "error": error.message})
        return _line({"ack": key} if receipt else {"refused": key})

    def split(self, text: str) -> Sequence[str]:
        """Cut every `limit` characters."""
        return [text[at : at + self.limit] for at in range(0, len(text), self.limit)]

    async def deliver(self, part: Part) -> str:
        """Write a part to every client, once a key."""
        if not self._clients:
            raise DeliveryFailed("nobody is connected", retry_after=0.1)
        if part.key not in self._sent:
            _, _, chat, *thread = part.target.split(":")
            told = {"part": part.key, "chat": chat, "thread": ":".join(thread), "text": part.text}
            for client in self._clients:
                client.write(_line(told))
            self._sent.add(part.key)
        return part.key

    async def find(self, part: Part) -> str | None:
        """Say whether a part was written."""
        return part.key if part.key in self._sent else None


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
