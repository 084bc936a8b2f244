"""A real chat-completions server on loopback that says what a test wants, faults included.

In a test::

    async with ScriptedOpenAI([Script(status=429), Script(text="hello")]) as server:
        ...  # use server.url, then look at server.requests

As a process: `python -m halo_kernel.testing.openai_server --port 0 --script file.json` prints its base URL once it
listens. Both answer `GET …/models`, `GET /requests` (what arrived so far) and `POST /scripts` (further scripts).
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import signal
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .openai_responders import RESPONDERS, Received, Responder, echo
from .openai_script import Script, ScriptedCall, read_scripts

__all__ = ["RESPONDERS", "Received", "Responder", "Script", "ScriptedCall", "ScriptedOpenAI", "echo", "main"]

_REASONS = {200: "OK", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}


class ScriptedOpenAI:
    """A server for one test. Each completion takes the next of `scripts`; when none is left, `responder` answers."""

    def __init__(
        self,
        scripts: Iterable[Script] = (),
        *,
        responder: Responder = echo,
        models: Sequence[str] = ("scripted",),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.scripts = deque(scripts)
        self.requests: list[Received] = []
        self._responder = responder
        self._models = tuple(models)
        self._address = (host, port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The base URL, `http://127.0.0.1:<port>/v1`."""
        return f"http://{self._address[0]}:{self._address[1]}/v1"

    @property
    def completions(self) -> list[Received]:
        """The completions that were asked for."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    async def __aenter__(self) -> ScriptedOpenAI:
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
                if not await self._answer(request, _Answer(request, reader, writer)):
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
            return await answer.json(
                {"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]}
            )
        if not request.path.endswith("/chat/completions"):
            return await answer.json({"error": {"message": f"no route {request.path}"}}, status=404)
        script = self.scripts.popleft() if self.scripts else self._responder(request)
        return await answer.play(await script if inspect.isawaitable(script) else script)


class _Answer:
    """One HTTP answer on a connection, and the watch for a client that goes away meanwhile."""

    def __init__(self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._request = request
        self._reader = reader
        self._writer = writer

    async def json(self, value: Any, *, status: int = 200) -> bool:
        return await self._whole(json.dumps(value).encode(), status, {})

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
            await self._whole(script.error(), script.status, script.headers)
        elif script.whole:
            await self._whole(script.message(model), 200, script.headers)
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
        for number, chunk in enumerate(script.chunks(model)):
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


async def _serve(server: ScriptedOpenAI) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with server:
        print(server.url, flush=True)
        await stopped.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m halo_kernel.testing.openai_server", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", type=Path, help="a JSON array of scripts")
    parser.add_argument(
        "--responder", choices=sorted(RESPONDERS), default="echo", help="what answers after the scripts"
    )
    parser.add_argument("--models", default="scripted", help="names for GET /models, separated by commas")
    chosen = parser.parse_args(argv)
    scripts = read_scripts(chosen.script.read_bytes()) if chosen.script else ()
    models = [name for name in chosen.models.split(",") if name]
    responder = RESPONDERS[chosen.responder]
    asyncio.run(_serve(ScriptedOpenAI(scripts, responder=responder, models=models, port=chosen.port)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
