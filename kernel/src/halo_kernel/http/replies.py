"""Handlers' answers as responses, streams among them, and the one place where an exception becomes a status code.

Wire of streams: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import cast

import msgspec
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .. import errors
from ..contracts import Clock
from ..errors import BadInput, HaloError
from ..log import logger
from ..records import Reply, Route, ServerEvent
from ..runtime import Kernel

KEEP_ALIVE = 15.0
CLOSE_SECONDS = 0.5
DEFAULTS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
STATUS: Mapping[type[HaloError], int] = {
    errors.BadInput: 400,
    errors.TooLarge: 413,
    errors.Unauthorized: 401,
    errors.LockedOut: 429,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.QueueFull: 429,
    errors.WorkspaceUnusable: 409,
    errors.CursorGone: 410,
    errors.ModelError: 502,
    errors.StorageUnavailable: 503,
    errors.Stopping: 503,
    HaloError: 500,
}


def known(error: BaseException, route: Route, clock: Clock) -> HaloError:
    """Return what a client may know of an exception: a defect is logged under a reference, and only that is told."""
    if isinstance(error, HaloError):
        return error
    if isinstance(error, ClientDisconnect):
        return BadInput("The request ended before its body did.")
    reference, where = clock.new_id(64), f"{route.method} {route.path}"
    logger("http").error("request failed", reference=reference, where=where, exc_info=error)
    said = f"Something went wrong inside the server (reference {reference})."
    return HaloError(said, advice=f"The server's log has the details under {reference}.")


def status_of(error: HaloError) -> int:
    """Return the HTTP status of an error, which a class of a plugin's own has from the one that it is made of."""
    return next(STATUS[base] for base in type(error).__mro__ if base in STATUS)


def shape(error: HaloError) -> dict[str, object]:
    """Return what a client is told: the sentence, the class's name, the advice and the facts that the error carries."""
    facts = {name: value for name, value in vars(error).items() if value not in ("", None) and not name.startswith("_")}
    return {"error": facts.pop("message", ""), "type": type(error).__name__, **facts}


def failure(error: HaloError, connection: HTTPConnection) -> Reply:
    """Return the answer to a request that failed: as JSON, or in a browser that opens a page as text for a person."""
    status = status_of(error)
    said: dict[str, str] = {"WWW-Authenticate": 'Bearer realm="halo"'} if status == 401 else {}
    if wait := getattr(error, "retry_after", None) or (1 if status in (429, 503) else 0):
        said["Retry-After"] = str(math.ceil(wait))
    if "text/html" in connection.headers.get("accept", "") and not connection.scope["path"].startswith("/api/"):
        text = "\n".join(line for line in (error.message, error.advice) if line) + "\n"
        return Reply(status=status, body=text, headers=said, media_type="text/plain")
    return Reply(status=status, body=shape(error), headers=said)


def as_response(answer: object) -> Response:
    """Return a handler's answer as a response: None is 204, bytes stay as they are, text is UTF-8, all else JSON."""
    reply = answer if isinstance(answer, Reply) else Reply(body=answer, status=204 if answer is None else 200)
    headers = {**DEFAULTS, **{name.lower(): value for name, value in reply.headers.items()}}
    body = reply.body
    if body is None:
        return Response(status_code=reply.status, headers=headers)
    if not isinstance(body, bytes) and (reply.media_type == "application/json" or not isinstance(body, str)):
        body = msgspec.json.encode(body)
    return Response(body, reply.status, headers, reply.media_type)


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
