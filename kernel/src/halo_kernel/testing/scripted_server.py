"""A real model server on loopback that says what a test wants, faults included, on whichever wire."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from .responders import RESPONDERS, Received, Responder, echo
from .scripts import Script, read_scripts

_REASONS = {200: "OK", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}
_BROKE_OFF = "the scripted server broke off"


class ScriptedWire(Protocol):
    """A script in the words of one wire.

    `base` is the path of the base URL, `path` that of a call below it; `damaged` is a chunk with broken JSON.
    """

    base: str
    path: str
    damaged: bytes

    def events(self, script: Script, model: str) -> Iterator[bytes]:
        """Yield the body of a streamed answer, one event at a time."""
        ...

    def message(self, script: Script, model: str) -> bytes:
        """Return the body of an answer that is not streamed."""
        ...

    def failure(self, status: int, message: str, *, streamed: bool) -> bytes:
        """Return a refusal's body, or an error within a stream."""
        ...

    def complaint(self, body: Mapping[str, Any]) -> str:
        """Return what the real server would refuse the request for, '' if nothing."""
        ...

    def listed(self, models: Sequence[str]) -> Mapping[str, Any]:
        """Return the answer to a question for the models."""
        ...


class ScriptedServer:
    """A server for one test. Each call takes the next of `scripts`; when none is left, `responder` answers."""

    def __init__(
        self,
        wire: ScriptedWire,
        scripts: Iterable[Script] = (),
        *,
        responder: Responder = echo,
        models: Sequence[str] = ("scripted",),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.scripts = deque(scripts)
        self._wire = wire
        self.requests: list[Received] = []
        self._responder = responder
        self._models = tuple(models)
        self._address = (host, port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://{self._address[0]}:{self._address[1]}{self._wire.base}"

    @property
    def completions(self) -> list[Received]:
        """The calls of the model."""
        return [request for request in self.requests if request.path.endswith(self._wire.path)]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, *self._address, limit=2**20)
        self._address = (self._address[0], self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            while (request := await _read_request(reader)) is not None:
                if not await self._answer(request, _Answer(self._wire, request, reader, writer)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(connection)
            writer.close()

    async def _answer(self, request: Received, answer: _Answer) -> bool:
        """Answer one request; return whether the connection can take another."""
        if request.path == "/requests":
            return await answer.json([each.record for each in self.requests])
        if request.path == "/scripts":
            self.scripts.extend(read_scripts(json.dumps(request.body["scripts"]).encode()))
            return await answer.json({"scripts": len(self.scripts)})
        self.requests.append(request)
        if request.path.endswith("/models"):
            return await answer.json(self._wire.listed(self._models))
        if not request.path.endswith(self._wire.path):
            return await answer.refuse(404, f"no route {request.path}")
        if complaint := self._wire.complaint(request.body):
            request.end("whole")
            return await answer.refuse(400, complaint)
        script = self.scripts.popleft() if self.scripts else self._responder(request)
        return await answer.play(await script if inspect.isawaitable(script) else script)


class _Answer:
    """One HTTP answer on a connection, and the watch for a client that goes away meanwhile."""

    def __init__(
        self, wire: ScriptedWire, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._wire = wire
        self._request = request
        self._reader = reader
        self._writer = writer

    async def json(self, value: Any) -> bool:
        return await self._whole(json.dumps(value).encode(), 200, {})

    async def refuse(self, status: int, message: str) -> bool:
        return await self._whole(self._wire.failure(status, message, streamed=False), status, {})

    async def play(self, script: Script) -> bool:
        """Say what the script says, and note how it ended."""
        gone = asyncio.ensure_future(self._reader.read(1))
        try:
            self._request.end(await self._play(script, gone))
        except ConnectionError:
            self._request.end("gone")
        finally:
            await _stopped(gone)
        return self._request.ended == "whole"

    async def _play(self, script: Script, gone: asyncio.Future[bytes]) -> str:
        model = str(self._request.body.get("model", ""))
        if await _left(gone, script.first_delay):
            return "gone"
        if script.status != 200 or script.whole:
            await _stopped(gone)
        if script.status != 200:
            said = self._wire.failure(script.status, f"scripted status {script.status}", streamed=False)
            await self._whole(script.body.encode() or said, script.status, script.headers)
        elif script.whole:
            await self._whole(self._wire.message(script, model), 200, script.headers)
        else:
            return await self._stream(script, model, gone)
        return "whole"

    async def _whole(self, body: bytes, status: int, headers: dict[str, str]) -> bool:
        self._head(status, {"content-type": "application/json", "content-length": str(len(body)), **headers})
        self._writer.write(body)
        await self._writer.drain()
        return True

    async def _stream(self, script: Script, model: str, gone: asyncio.Future[bytes]) -> str:
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", **script.headers})
        left = script.cut_after_bytes
        for number, chunk in enumerate(self._chunks(script, model)):
            if number == script.cut_at or left == 0:
                return await self._cut(script)
            if number == script.hang_at:
                await gone
                return "gone"
            if await _left(gone, script.delay if number else 0):
                return "gone"
            await self._send(chunk if left is None else chunk[:left], script.write_size)
            left = None if left is None else max(0, left - len(chunk))
        if left == 0:
            return await self._cut(script)
        await _stopped(gone)
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        return "whole"

    def _chunks(self, script: Script, model: str) -> Iterator[bytes]:
        for number, event in enumerate(self._wire.events(script, model)):
            if number == script.damage_at:
                yield self._wire.damaged
            elif number == script.error_at:
                yield self._wire.failure(500, _BROKE_OFF, streamed=True)
            else:
                yield event

    async def _cut(self, script: Script) -> str:
        if script.cut == "abort":
            self._writer.transport.abort()
        elif script.cut == "end":
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()
        return "cut"

    async def _send(self, data: bytes, write_size: int | None) -> None:
        size = write_size or len(data) or 1
        for begin in range(0, len(data), size):
            piece = data[begin : begin + size]
            self._writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await self._writer.drain()
            if write_size:
                await asyncio.sleep(0)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())


async def _left(gone: asyncio.Future[bytes], seconds: float) -> bool:
    """Wait, and return whether the client left meanwhile."""
    await asyncio.wait({gone}, timeout=seconds)
    return gone.done()


async def _stopped(gone: asyncio.Future[bytes]) -> None:
    """End the watch before the answer ends: what comes after that is the next request."""
    gone.cancel()
    await asyncio.wait({gone})


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    """Return the next request of a connection, or None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path.partition("?")[0], headers, json.loads(raw) if raw else {})


class NewServer(Protocol):
    """Makes a server of one wire."""

    def __call__(
        self, scripts: Iterable[Script], *, responder: Responder, models: Sequence[str], port: int
    ) -> ScriptedServer:
        """Make it."""
        ...


def run(new_server: NewServer, module: str, doc: str, argv: Sequence[str] | None = None) -> int:
    """Serve as the process `python -m <module>`, which `doc` describes, until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", type=Path, help="a JSON array of scripts")
    parser.add_argument(
        "--responder", choices=sorted(RESPONDERS), default="echo", help="what answers after the scripts"
    )
    parser.add_argument("--models", default="scripted", help="names for the list of models, separated by commas")
    chosen = parser.parse_args(argv)
    scripts = read_scripts(chosen.script.read_bytes()) if chosen.script else ()
    models = [name for name in chosen.models.split(",") if name]
    server = new_server(scripts, responder=RESPONDERS[chosen.responder], models=models, port=chosen.port)
    asyncio.run(_serve(server))
    return 0


async def _serve(server: ScriptedServer) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with server:
        print(server.url, flush=True)
        await stopped.wait()
