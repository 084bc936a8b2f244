"""HTTP/1.1 on loopback, close enough to the socket to lose a request, cut an answer or become a WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

_LIMIT = 2**26  # bytes of a body


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request; names of headers are in lower case, `head` is what came before the body."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    head: bytes
    body: bytes

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def bearer(self) -> str | None:
        """The token of the header `Authorization`."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" and token.strip() else None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One HTTP answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """The answer as it goes out."""
        lines = [f"HTTP/1.1 {self.status} {_reason(self.status)}", f"Content-Type: {self.content_type}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Content-Length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode() + self.body


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return `value` as an answer."""
    return Answer(status=status, body=json.dumps(value).encode(), headers=headers or {})


def text_answer(text: str, *, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> Answer:
    """Return `text` as an answer."""
    return Answer(status=status, body=text.encode(), content_type=content_type)


class Line:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self) -> Request | None:
        """Return the next request, or None at the end."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return None
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        path, _, query = target.partition("?")
        return Request(
            method=method,
            path=unquote(path),
            query=dict(parse_qsl(query, keep_blank_values=True)),
            headers=headers,
            head=head,
            body=await self._body(headers),
        )

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks()
        return await self._reader.readexactly(min(int(headers.get("content-length", "0")), _LIMIT))

    async def _chunks(self) -> bytes:
        body = b""
        while size := int((await self._reader.readline()).partition(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")
        return body

    async def read(self) -> bytes:
        """Return what comes next as it comes, b'' at the end."""
        return await self._reader.read(2**16)

    async def send(self, data: bytes) -> None:
        """Write."""
        self._writer.write(data)
        await self._writer.drain()

    def write(self, data: bytes) -> None:
        """Write without waiting."""
        self._writer.write(data)

    def abort(self) -> None:
        """End without a word: the other side sees a reset."""
        self._writer.transport.abort()

    def close(self) -> None:
        """End after what was written."""
        self._writer.close()


class WebServer:
    """Takes connections and gives each request to `serve`, which returns whether the connection can take another."""

    def __init__(self, serve: Callable[[Request, Line], Awaitable[bool]]) -> None:
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=2**20)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End every connection."""
        if self._server is not None:
            self._server.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        line = Line(reader, writer)
        try:
            while (request := await line.request()) is not None and await self._serve(request, line):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._lines.discard(task)
            line.close()


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
