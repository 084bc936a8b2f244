"""Server-sent events: an iterator becomes a stream that ends cleanly when the client goes or the server stops.

Wire: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ..records import ServerEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from starlette.types import Send

    from .bodies import Body

KEEP_ALIVE = 15.0
CLOSE_SECONDS = 0.5
HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_RETRY = b"retry: 1000\n\n"
_COMMENT = b": keep-alive\n\n"


def encode(event: ServerEvent) -> bytes:
    """Return an event as it goes over the wire; its data is one line of JSON."""
    lines = [f"id: {_line(event.id)}".encode()] if event.id is not None else []
    lines.append(f"event: {_line(event.event)}".encode())
    lines.append(b"data: " + msgspec.json.encode(event.data))
    return b"\n".join(lines) + b"\n\n"


def _line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ")


_SHUTDOWN = encode(ServerEvent(event="shutdown", data={}))


class Streaming:
    """One open stream. `fail` turns an exception of the iterator into the body of the `error` event."""

    def __init__(
        self,
        events: AsyncIterator[ServerEvent],
        *,
        send: Send,
        body: Body,
        stopping: asyncio.Event,
        fail: Callable[[BaseException], object],
        keep_alive: float = KEEP_ALIVE,
    ) -> None:
        self._events = events
        self._send = send
        self._body = body
        self._stopping = stopping
        self._fail = fail
        self._keep_alive = keep_alive
        self._last = 0.0

    async def run(self, headers: list[tuple[bytes, bytes]], *, silent: bool = False) -> None:
        """Send until the iterator ends, the client goes or the server stops; the iterator is closed in any case.

        A `silent` stream is the answer to HEAD: it ends after its headers.
        """
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if silent:
            await self._close_events()
            await self._end(b"")
            return
        pump = asyncio.create_task(self._pump(), name="http.stream")
        gone = asyncio.create_task(self._body.gone(), name="http.gone")
        stop = asyncio.create_task(self._stopping.wait(), name="http.stop")
        try:
            await self._watch(pump, gone, stop)
        finally:
            last = b"" if pump.done() else _SHUTDOWN
            for task in (pump, stop):
                task.cancel()
            # A deaf iterator is left behind: the answer ends without it.
            await asyncio.wait({pump, stop}, timeout=CLOSE_SECONDS)
            pump.add_done_callback(_forget)
            if not gone.done():
                await _bounded(self._end(last))
            gone.cancel()

    async def _watch(self, *tasks: asyncio.Task[object]) -> None:
        """Return when the first of the tasks is done; send a comment whenever nothing was sent for a while."""
        clock = asyncio.get_running_loop().time
        while True:
            rest = self._last + self._keep_alive - clock()
            done, _ = await asyncio.wait(tasks, timeout=max(rest, 0), return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            if clock() >= self._last + self._keep_alive:
                keeping = asyncio.create_task(self._write(_COMMENT), name="http.keep-alive")
                done, _ = await asyncio.wait({keeping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                if done != {keeping}:
                    keeping.cancel()
                    return

    async def _pump(self) -> None:
        try:
            await self._write(_RETRY)
            async for event in self._events:
                await self._write(encode(event))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            await self._tell(RuntimeError("the stream's source was cancelled"))
        except (Exception, SystemExit) as error:
            await self._tell(error)
        finally:
            await self._close_events()

    async def _close_events(self) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            with suppress(Exception):
                await close()

    async def _tell(self, error: BaseException) -> None:
        await self._write(encode(ServerEvent(event="error", data=self._fail(error))))

    async def _write(self, data: bytes) -> None:
        self._last = asyncio.get_running_loop().time()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _end(self, last: bytes) -> None:
        await self._send({"type": "http.response.body", "body": last, "more_body": False})


async def _bounded(work: Coroutine[object, object, None]) -> None:
    """Wait for a send, but not for a client that reads nothing."""
    task = asyncio.create_task(work, name="http.end")
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=CLOSE_SECONDS)
    task.cancel()


def _forget(task: asyncio.Task[None]) -> None:
    """Take note of how a task ended: a connection that broke under it is nothing to log."""
    if not task.cancelled():
        task.exception()


def is_cancelled() -> bool:
    """Tell whether somebody asked the running task to end; a plugin's own `CancelledError` is its failure."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
