"""An Eliza server with faults, in a thread with its own loop: nothing of it counts as left behind by a test."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from aiohttp import web

KEY = "key-0123456789"
Step = str | list[dict[str, Any]]
STATUSES = {"account": 402, "overflow": 413, "refused": 422, "throttle": 429, "server": 503}


class ElizaServer:
    """Repeats what it is told, unless `script` has a fault by name, or the lines of an answer."""

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.script: list[Step] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.port = 0
        self._up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.connections)

    def __enter__(self) -> Self:
        self._thread.start()
        self._up.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        app = web.Application()
        app.add_routes([web.get("/v1/health", self._health), web.post("/v1/talk", self._talk)])
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        assert runner.server
        self._server, self.port = runner.server, runner.addresses[0][1]
        self._up.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _talk(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(told := await request.json())
        self.keys.append(given := request.headers.get("Authorization", ""))
        if self.key and given != f"Bearer {self.key}":
            return web.json_response({"error": f"wrong key {given}"}, status=401)
        step = self.script.pop(0) if self.script else _repeat(told)
        if isinstance(step, list):
            return await _answer(request, *[json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in step])
        if step in STATUSES:
            return web.json_response({"error": step}, status=STATUSES[step], headers={"Retry-After": "1"})
        return await _fault(request, step)


def _repeat(told: dict[str, Any]) -> Step:
    said = [row["text"] for row in told["messages"] if "text" in row]
    return [
        {"text": "Why do you say: "},
        {"text": said[-1]},
        {"usage": {"input": 7, "output": 3, "cached": 2}},
        {"done": "end"},
    ]


async def _answer(request: web.Request, *pieces: bytes) -> web.StreamResponse:
    """Begin an answer and send it in pieces that cut characters and lines."""
    response = web.StreamResponse()
    await response.prepare(request)
    data = b"".join(pieces)
    for at in range(0, len(data), 5):
        await response.write(data[at : at + 5])
    return response


async def _fault(request: web.Request, name: str) -> web.StreamResponse:
    """Fail in a way that is no status."""
    if name == "silent":
        await asyncio.sleep(60)
    if name == "redirect":
        return web.Response(status=302, headers={"Location": "http://169.254.169.254/"})
    if name == "garbage":
        return await _answer(request, b"<html>\n")
    if name == "short":
        return await _answer(request, b'{"text": "Hm"}\n')
    if name in ("hang", "cut"):
        await _answer(request, b'{"text": "Hm"}\n{"ping": true}\n')
    if name == "hang":
        await asyncio.sleep(60)
    assert request.transport
    request.transport.abort()  # `network`: before a word of an answer
    return web.Response()


if __name__ == "__main__":
    with ElizaServer() as server:
        print(f"{server.url}, with the key {KEY}; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
