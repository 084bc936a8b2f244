"""Server-sent events: an iterator becomes a stream that ends cleanly when the client goes or the server stops.

Wire: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from ..records import ServerEvent
from .replies import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from starlette.types import Receive, Scope, Send

KEEP_ALIVE = 15.0
CLOSE_SECONDS = 0.5
_RETRY = b"retry: 1000\n\n"
_COMMENT = b": keep-alive\n\n"


def encode(event: ServerEvent) -> bytes:
    """Return an event as it goes over the wire; its data is one line of JSON."""
    cursor = "" if event.id is None else f"id: {_line(event.id)}\n"
    return f"{cursor}event: {_line(event.event)}\ndata: ".encode() + msgspec.json.encode(event.data) + b"\n\n"


def _line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ")


_SHUTDOWN = encode(ServerEvent(event="shutdown", data={}))


class EventStream(Response):
    """One open stream. `gone` returns when its client has; `fail` turns an exception into what a client is told."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[ServerEvent],
        *,
        gone: Callable[[], Coroutine[object, object, None]],
        stopping: asyncio.Event,
        fail: Callable[[BaseException], object],
        keep_alive: float = KEEP_ALIVE,
    ) -> None:
        self.status_code = 200
        self.init_headers({**DEFAULTS, "x-accel-buffering": "no"})
        self._events = events
        self._gone = gone
        self._stopping = stopping
        self._fail = fail
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the iterator ends, the client goes or the server stops; the iterator is closed in any case."""

        async def write(data: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await self._close()
            await write(b"", more=False)
            return
        pump = asyncio.create_task(self._pump(write), name="http.stream")
        gone = asyncio.create_task(self._gone(), name="http.gone")
        stop = asyncio.create_task(self._stopping.wait(), name="http.stop")
        tasks = (pump, gone, stop)
        try:
            while not (await asyncio.wait(tasks, timeout=self._keep_alive, return_when=asyncio.FIRST_COMPLETED))[0]:
                await write(_COMMENT)
        finally:
            last, heard = b"" if pump.done() else _SHUTDOWN, not gone.done()
            for task in tasks:
                task.cancel()
            await asyncio.wait({pump}, timeout=CLOSE_SECONDS)  # a deaf iterator is left behind
        if heard:
            await write(last, more=False)

    async def _pump(self, write: Callable[[bytes], Coroutine[object, object, None]]) -> None:
        try:
            await write(_RETRY)
            async for event in self._events:
                await write(encode(event))
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if not is_cancelled():
                await write(encode(ServerEvent(event="error", data=self._fail(error))))
        finally:
            await self._close()

    async def _close(self) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            with suppress(Exception):
                await close()


def is_cancelled() -> bool:
    """Tell whether somebody asked the running task to end; a plugin's own `CancelledError` is its failure."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
