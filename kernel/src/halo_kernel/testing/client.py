"""A client of HTTP that can do what a real one does: read an answer piece by piece, and go away in the middle of it.

Wire: RFC 9112, one request on each connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit

import msgspec

SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class WireRequest:
    """A request as a client sends it: `body` is bytes as they are, None for none, and JSON of anything else.

    `path` is with its query. The headers that say who calls are not among `headers`.
    """

    method: str = "POST"
    path: str
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def data(self) -> bytes:
        """The body's bytes."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body or b""
        return msgspec.json.encode(self.body)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class WireReply:
    """An answer as a client got it, whole; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @cached_property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self) -> object:
        """Return the body's JSON, None when it has none."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None

    def __str__(self) -> str:
        return f"{self.status} {self.text[:200]}"


class Connection:
    """One request on its way; `connected` makes it. What is cut before its end raises `ConnectionError`."""

    status = 0
    headers: Mapping[str, str]

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, method: str) -> None:
        self.headers = {}
        self._reader = reader
        self._writer = writer
        self._has_body = method != "HEAD"
        self._left: int | None = None

    async def head(self) -> int:
        """Read status and headers, once, and return the status."""
        if not self.status:
            self.status = int((await self._line()).split(b" ", 2)[1])
            found: dict[str, str] = {}
            while line := await self._line():
                name, _, value = line.decode("latin-1").partition(":")
                found[name.strip().lower()] = value.strip()
            self.headers = found
            self._has_body = self._has_body and self.status not in (204, 304)
            self._left = int(found["content-length"]) if "content-length" in found else None
        return self.status

    async def piece(self) -> bytes:
        """Return the next piece of the body, b"" when it has come to its proper end."""
        await self.head()
        if not self._has_body or self._left == 0:
            return b""
        if self.headers.get("transfer-encoding") == "chunked":
            data = await self._exactly(int(await self._line(), 16))
            await self._line()
            self._has_body = bool(data)
            return data
        data = await self._reader.read(65536 if self._left is None else self._left)
        if self._left is not None:
            if not data:
                raise ConnectionError("the connection was cut before the answer's end")
            self._left -= len(data)
        return data

    async def reply(self) -> WireReply:
        """Read to the answer's end and return it."""
        body = b""
        while piece := await self.piece():
            body += piece
        return WireReply(status=self.status, headers=self.headers, body=body)

    def leave(self) -> None:
        """Go away as a client that crashes: at once, whatever is on its way."""
        self._writer.transport.abort()

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection was cut before the answer's end")
        return line.rstrip(b"\r\n")

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ConnectionError("the connection was cut before the answer's end") from None


@asynccontextmanager
async def connected(url: str, request: WireRequest, *, headers: Mapping[str, str]) -> AsyncGenerator[Connection]:
    """Send a request to the server at `url` with further headers; leaving goes away, whatever is still to come."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    connection = Connection(reader, writer, method=request.method)
    try:
        writer.write(_told(request, place.netloc, headers))
        with suppress(ConnectionError):  # a server that refuses may not read to the end; its answer says why
            await writer.drain()
        yield connection
    finally:
        connection.leave()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def fetch(
    url: str, request: WireRequest, *, headers: Mapping[str, str], seconds: float | None = None
) -> WireReply:
    """Return the answer to a request, whole. Raises `AssertionError` when there is none in time, or it is cut."""
    within = SECONDS if seconds is None else seconds
    try:
        async with asyncio.timeout(within), connected(url, request, headers=headers) as connection:
            return await connection.reply()
    except TimeoutError:
        raise AssertionError(f"{request} was not answered within {within:g} s") from None
    except ConnectionError as error:
        raise AssertionError(f"{request} was not answered: {error}") from None


def _told(request: WireRequest, host: str, headers: Mapping[str, str]) -> bytes:
    kind = {} if request.body is None else {"Content-Type": "application/json"}
    length = {} if request.body is None else {"Content-Length": str(len(request.data))}
    every = {"Host": host, "Connection": "close", **kind, **headers, **request.headers, **length}
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in every.items())]
    return "\r\n".join([*lines, "", ""]).encode() + request.data
