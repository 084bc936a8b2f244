"""Server-sent events: an iterator becomes a stream that ends cleanly when the client goes or the server stops.

Wire: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import cast

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..records import Route, ServerEvent
from ..runtime import Kernel
from .replies import DEFAULTS, known, shape

KEEP_ALIVE = 15.0
CLOSE_SECONDS = 0.5


def encode(event: ServerEvent) -> bytes:
    """Return an event as it goes over the wire; its data is one line of JSON."""
    cursor = "" if event.id is None else f"id: {_line(event.id)}\n"
    return f"{cursor}event: {_line(event.event)}\ndata: ".encode() + msgspec.json.encode(event.data) + b"\n\n"


def _line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ")


class EventStream(Response):
    """One open stream, which a route of a kernel answers."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[ServerEvent], route: Route, kernel: Kernel) -> None:
        self.status_code = 200
        self.init_headers({**DEFAULTS, "x-accel-buffering": "no"})
        self._events, self._route, self._kernel = events, route, kernel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the iterator ends, the client goes or the server stops; the iterator is closed in any case."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pump = asyncio.create_task(self._pump(send, has_body=scope["method"] != "HEAD"), name="http.stream")
        gone = asyncio.create_task(_gone(receive), name="http.gone")
        tasks = (pump, gone, asyncio.create_task(self._kernel.stopping.wait(), name="http.stop"))
        try:
            while not (await asyncio.wait(tasks, timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED))[0]:
                await _write(send, b": keep-alive\n\n")
        finally:
            is_cut, is_heard = not pump.done(), not gone.done()
            for task in tasks:
                task.cancel()
            await asyncio.wait({pump}, timeout=CLOSE_SECONDS)  # a deaf iterator is left behind
        if is_heard:
            await _write(send, encode(ServerEvent(event="shutdown", data={})) if is_cut else b"", more=False)

    async def _pump(self, send: Send, *, has_body: bool) -> None:
        try:
            if has_body:
                await _write(send, b"retry: 1000\n\n")
                async for event in self._events:
                    await _write(send, encode(event))
                    await asyncio.sleep(0)  # a write to a client that is gone waits for nothing, nor may the source
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if not is_cancel(error):
                told = shape(known(error, self._route, self._kernel.clock))
                await _write(send, encode(ServerEvent(event="error", data=told)))
        finally:
            with suppress(Exception):  # an iterator that is no generator cannot be closed
                await cast("AsyncGenerator[ServerEvent]", self._events).aclose()


async def _gone(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


def is_cancel(error: BaseException) -> bool:
    """Tell whether `error` is a cancel that somebody asked for; a plugin's own `CancelledError` is its failure."""
    return isinstance(error, asyncio.CancelledError) and bool((task := asyncio.current_task()) and task.cancelling())
