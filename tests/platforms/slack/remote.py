"""The platform in another thread or process, driven over its control interface."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from .clock import Pace
from .server import SlackServer

_ROOT = Path(__file__).resolve().parents[3]


class Remote:
    """A platform somewhere else; `call("say", user=…, channel=…, text=…)` does what the verb of `Control` does."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.api_url = f"{url}/api/"
        self._client = httpx.Client(trust_env=False, timeout=60)

    def call(self, verb: str, **arguments: Any) -> Any:
        """Do it and return its result; raise `ValueError` with the reason if it cannot be done."""
        sent = {name: _sendable(value) for name, value in arguments.items()}
        answer = self._client.post(f"{self.url}/control/{verb}", json=sent).json()
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the connections."""
        self._client.close()


@contextmanager
def threaded(*, app: str = "halo", pace: Pace | None = None) -> Iterator[Remote]:
    """Serve in a thread of this process."""
    started: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = []
    ready = threading.Event()

    async def serve() -> None:
        stop = asyncio.Event()
        async with SlackServer(app=app, pace=pace) as slack:
            started.append((slack.url, asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="slack")
    thread.start()
    ready.wait()
    url, loop, stop = started[0]
    remote = Remote(url)
    try:
        yield remote
    finally:
        remote.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def spawned(*options: str) -> Iterator[Remote]:
    """Serve in a process of its own, which outlives whatever else is killed; `options` as on its command line."""
    command = [sys.executable, "-m", "tests.platforms.slack", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        assert process.stdout is not None
        remote = Remote(process.stdout.readline().strip())
        try:
            yield remote
        finally:
            remote.close()
            process.terminate()


def _sendable(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
