"""A platform that runs elsewhere: in a thread of this process, or in a process that outlives a killed bot."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx

from .control import decoded, encoded
from .server import TelegramServer
from .stage import Stage

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[3]


class _Verbs:
    """A stage whose verbs run on the other side."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            signature = inspect.signature(getattr(Stage, verb))
            said = signature.bind(None, *positional, **named)
            body = dict(zip(signature.parameters, said.args, strict=False)) | said.kwargs
            del body["self"]
            response = self._client.post(f"/control/{verb}", content=encoded(body))
            answer = decoded(response.content)
            if response.is_error:
                raise ValueError(answer["error"])
            return answer["result"]

        return call


class RemoteTelegram:
    """A platform by its address. `stage` is the same as a `TelegramServer`'s, and blocks for a moment."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=30, trust_env=False, verify=False)
        self.stage = cast(Stage, _Verbs(self._client))

    def until(self, fact: Callable[[Stage], T], timeout: float = 20) -> T:
        """Return what `fact` says of the stage as soon as it is true; `TimeoutError` after `timeout` seconds."""
        ends, changes = time.monotonic() + timeout, -1
        while (left := ends - time.monotonic()) > 0:
            asked = {"after": changes, "timeout": min(left, 10)}
            changes = self._client.get("/control/changes", params=asked).json()["changes"]
            if found := fact(self.stage):
                return found
        raise TimeoutError(f"not so after {timeout} s")

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()


@contextmanager
def as_process(*, port: int = 0) -> Iterator[RemoteTelegram]:
    """Run a platform as a process of its own."""
    command = [sys.executable, "-m", "tests.platforms.telegram", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield from _remote(process.stdout.readline().strip())
        finally:
            process.terminate()


@contextmanager
def in_thread(server: TelegramServer | None = None) -> Iterator[RemoteTelegram]:
    """Run a platform in a thread with a loop of its own."""
    server = server or TelegramServer()
    loop, ready, ends = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await ends.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="telegram-platform", daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield from _remote(server.url)
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join(10)
        loop.close()


def _remote(url: str) -> Iterator[RemoteTelegram]:
    remote = RemoteTelegram(url)
    try:
        yield remote
    finally:
        remote.close()
