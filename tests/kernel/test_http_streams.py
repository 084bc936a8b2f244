"""Server-sent events over real sockets: resumed, kept alive, closed with the client, ended with the server."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from halo_kernel import CursorGone, Exchange, Kernel, Route, ServerEvent, Stream, hook
from halo_kernel.http import replies
from halo_kernel.http.replies import EventStream
from halo_kernel.testing import Front, listening, running_kernel


def read_events(chunks: Iterable[bytes]) -> list[ServerEvent]:
    """Return the events of a stream whose end is at the end of one."""
    found = []
    for block in b"".join(chunks).decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line)
        if "event" in fields:
            found.append(ServerEvent(event=fields["event"], data=json.loads(fields["data"]), id=fields.get("id")))
    return found


@dataclass
class Source:
    """Streams that count who opened and closed them."""

    opened: int = 0
    closed: int = 0
    finished: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    @hook
    def provide_routes(self) -> Iterable[Route]:
        """Provide them."""
        handlers = {
            "/s/count": self.count,
            "/s/endless": self.endless,
            "/s/flood": self.flood,
            "/s/deaf": self.deaf,
            "/s/gone": self.gone,
            "/s/defect": self.defect,
            "/s/cancelled": self.cancelled,
        }
        streams = [
            Route(method="GET", path=path, handler=self.streaming(make), summary="", auth="public", reply=Stream)
            for path, make in handlers.items()
        ]
        return [*streams, Route(method="POST", path="/s/slow", handler=self.slow, summary="", auth="public")]

    def streaming(self, make: Any) -> Any:
        async def handler(exchange: Exchange) -> Stream:
            return Stream(events=self.counted(make(exchange)))

        return handler

    async def counted(self, events: AsyncIterator[ServerEvent]) -> AsyncIterator[ServerEvent]:
        self.opened += 1
        self.started.set()
        try:
            async for event in events:
                yield event
        finally:
            self.closed += 1

    async def count(self, exchange: Exchange) -> AsyncIterator[ServerEvent]:
        for number in range(int(exchange.last_event_id or 0) + 1, 6):
            yield ServerEvent(event="number", data={"n": number}, id=str(number))

    async def endless(self, exchange: Exchange) -> AsyncIterator[ServerEvent]:
        yield ServerEvent(event="first", data=1)
        await asyncio.Event().wait()

    async def flood(self, exchange: Exchange) -> AsyncIterator[ServerEvent]:
        while True:
            yield ServerEvent(event="flood", data="x" * 65_536)

    async def deaf(self, exchange: Exchange) -> AsyncIterator[ServerEvent]:
        yield ServerEvent(event="first", data=1)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue

    async def gone(self, exchange: Exchange) -> AsyncIterator[ServerEvent]:
        yield ServerEvent(event="first", data=1)
        raise CursorGone("that cursor is of another journal", advice="start again")

    async def defect(self, exchange: Exchange) -> AsyncIterator[ServerEvent]:
        yield ServerEvent(event="first", data=1)
        raise RuntimeError("secret detail")

    async def cancelled(self, exchange: Exchange) -> AsyncIterator[ServerEvent]:
        yield ServerEvent(event="first", data=1)
        raise asyncio.CancelledError

    async def slow(self, exchange: Exchange) -> str:
        self.started.set()
        await asyncio.sleep(0.3)
        self.finished.append("slow")
        return "done"


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
async def kernel(tmp_path: Path, source: Source) -> AsyncIterator[Kernel]:
    async with running_kernel(tmp_path / "home", extra={"source": source}) as kernel:
        yield kernel


@pytest.fixture
async def face(kernel: Kernel) -> AsyncIterator[Front]:
    async with listening(kernel) as face:
        yield face


@pytest.fixture
async def client(face: Front) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=face.url, timeout=10) as client:
        yield client


async def read(client: httpx.AsyncClient, path: str, **headers: str) -> list[ServerEvent]:
    """Read a stream to its end; a cut one raises."""
    async with client.stream("GET", path, headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-store"
        return list(read_events([chunk async for chunk in response.aiter_raw()]))


async def until(condition: Any, seconds: float = 3) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is another task's field
            await asyncio.sleep(0.01)


async def test_a_stream_is_sent_to_its_end(client: httpx.AsyncClient, source: Source) -> None:
    """All events arrive with name, value and cursor, and the stream ends when its source does."""
    events = await read(client, "/s/count")
    assert events == [ServerEvent(event="number", data={"n": n}, id=str(n)) for n in range(1, 6)]
    await until(lambda: source.closed == 1)


async def test_a_stream_resumes_after_the_last_event(client: httpx.AsyncClient) -> None:
    """`Last-Event-ID` reaches the handler."""
    events = await read(client, "/s/count", **{"Last-Event-ID": "3"})
    assert [event.id for event in events] == ["4", "5"]


async def test_an_event_is_sent_when_it_happens(client: httpx.AsyncClient) -> None:
    """The first event arrives while the source still waits for its second."""
    async with client.stream("GET", "/s/endless") as response, asyncio.timeout(3):
        seen = b""
        async for chunk in response.aiter_raw():
            seen += chunk
            if b"event: first" in seen:
                break


async def test_a_source_closes_when_its_client_goes(client: httpx.AsyncClient, source: Source) -> None:
    """A client that goes away closes the source, though it waits."""
    async with client.stream("GET", "/s/endless"):
        await source.started.wait()
    await until(lambda: source.closed == 1)


async def test_a_handler_outlives_its_client(face: Front, source: Source) -> None:
    """A request's work goes on when its client does not wait for the answer."""
    async with httpx.AsyncClient(base_url=face.url) as client:
        asking = asyncio.create_task(client.post("/s/slow"))
        await source.started.wait()
        asking.cancel()
    await until(lambda: source.finished == ["slow"])


async def test_a_failing_source_sends_its_error(client: httpx.AsyncClient) -> None:
    """A typed error of the source arrives as an event of the same shape, and the stream ends cleanly."""
    first, error = await read(client, "/s/gone")
    assert first.event == "first"
    assert error.event == "error"
    assert error.data == {"error": "that cursor is of another journal", "type": "CursorGone", "advice": "start again"}


@pytest.mark.parametrize("path", ["/s/defect", "/s/cancelled"])
async def test_a_defect_of_a_source_tells_a_reference(client: httpx.AsyncClient, path: str) -> None:
    """An unexpected exception, and a cancel that nobody asked for, arrive as a reference."""
    error = (await read(client, path))[-1]
    assert error.event == "error"
    assert "reference" in str(error.data)
    assert "secret detail" not in str(error.data)


async def test_a_stop_ends_streams_at_once(client: httpx.AsyncClient, kernel: Kernel, source: Source) -> None:
    """When the server stops, open streams get `shutdown` and end cleanly, at once; their sources are closed."""
    reading = [asyncio.create_task(read(client, "/s/endless")) for _ in range(5)]
    await until(lambda: source.opened == 5)
    began = time.monotonic()
    kernel.stopping.set()
    for task in reading:
        assert [event.event for event in await task] == ["first", "shutdown"]
    assert time.monotonic() - began < 0.3
    assert source.closed == 5


async def test_a_deaf_source_holds_up_no_stop(client: httpx.AsyncClient, kernel: Kernel, source: Source) -> None:
    """A source that ignores its cancel is left behind; its client still gets a clean end."""
    reading = asyncio.create_task(read(client, "/s/deaf"))
    await source.started.wait()
    await asyncio.sleep(0.1)
    began = time.monotonic()
    kernel.stopping.set()
    assert [event.event for event in await reading] == ["first", "shutdown"]
    assert time.monotonic() - began < 2


async def test_an_unread_stream_holds_up_no_stop(kernel: Kernel, source: Source) -> None:
    """A client that reads nothing neither grows the server nor keeps it from ending."""
    async with listening(kernel) as face:
        host, port = face.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(b"GET /s/flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await source.started.wait()
            await asyncio.sleep(0.2)
            began = time.monotonic()
            kernel.stopping.set()
            await until(lambda: source.closed == 1)
    assert time.monotonic() - began < 4


async def test_head_of_a_stream_has_headers_only(client: httpx.AsyncClient, source: Source) -> None:
    """HEAD tells the type and leaves no source open."""
    answer = await client.head("/s/endless")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert source.opened == source.closed


async def test_a_quiet_stream_is_kept_alive(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment goes out whenever nothing else did for a while, so that no proxy gives the stream up."""
    monkeypatch.setattr(replies, "KEEP_ALIVE", 0.03)
    sent: list[bytes] = []
    go = asyncio.Event()

    async def events() -> AsyncIterator[ServerEvent]:
        await go.wait()
        yield ServerEvent(event="late", data=1)

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        await asyncio.Event().wait()

    stream = EventStream(events(), kernel.routes[0][1], kernel)
    running = asyncio.create_task(stream({"type": "http", "method": "GET"}, receive, send))
    await until(lambda: sent.count(b": keep-alive\n\n") >= 3)
    go.set()
    await running
    assert [event.event for event in read_events(sent)] == ["late"]
