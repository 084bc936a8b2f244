"""The channel: a server that takes lines in."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import aclosing, suppress
from hmac import compare_digest

from halo_kernel import Account, Arrival, Door, HaloError, Host

from .lines import LONGEST, read_hello, read_lines, read_message
from .outgoing import database
from .room import Room
from .settings import ShoutSettings

PATIENCE = 10.0
"""Seconds in which a client says who it is."""


class Shout:
    """Listens for one account on the port of the settings."""

    type = "shout"
    silence: float | None = None  # nobody has to say anything: that is no fault of a line

    def __init__(self, host: Host) -> None:
        self._host = host

    async def run(self, account: Account, door: Door) -> None:
        """Listen until cancelled; whoever is connected then is cut off."""
        room = Room(account.id, await database(self._host))

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            clients.create_task(self._serve(room, door, reader, writer), name="shout.client")

        port = self._host.settings.of(ShoutSettings).port
        server = await asyncio.start_server(accept, "127.0.0.1", port, limit=LONGEST, start_serving=False)
        async with asyncio.TaskGroup() as clients:
            try:
                await server.start_serving()
                door.heard()
                await room.carry()
            finally:
                server.close()

    async def _serve(self, room: Room, door: Door, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection until it ends."""
        try:
            with suppress(OSError):
                async with aclosing(read_lines(reader)) as lines:
                    async with asyncio.timeout(PATIENCE):
                        name = self._named(await anext(lines, None))
                    if not name:
                        writer.write(b"ERR say HELLO <name> <token>\n")
                        return
                    writer.write(f"WELCOME {name}\n".encode())
                    with room.holding(name, writer):
                        async for line in lines:
                            writer.write(await self._answer(door, name, line) + b"\n")
                            await writer.drain()
        finally:
            writer.transport.abort()

    def _named(self, line: bytes | None) -> str:
        """Return the name of who says HELLO with the token of the settings, '' for whoever else it is."""
        name, token = read_hello(line)
        wanted = self._host.settings.of(ShoutSettings).token
        return name if wanted and compare_digest(token.encode(), wanted.reveal().encode()) else ""

    async def _answer(self, door: Door, name: str, line: bytes | None) -> bytes:
        """Take a line in, and return the one that answers it, which says OK only after the commit."""
        if line == b"PING":
            return b"PONG"
        try:
            given, text = read_message(line)
        except ValueError as error:
            return f"ERR {error}".encode()
        key = given or self._host.clock.new_id(64)
        try:
            await door.arrive(Arrival(key=f"{name}:{key}", chat=name, user=name, text=text))
        except HaloError as error:
            return f"NO {key} {' '.join(error.message.split())}".encode()
        return f"OK {key}".encode()
