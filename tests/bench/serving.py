"""How the bench's own servers listen: hypercorn on a socket of their own, ready when it begins to serve."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import hypercorn.asyncio
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.routing import Route


def ready_parser() -> argparse.ArgumentParser:
    """Return a parser that knows `--ready-fd` and `--database`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument("--database", required=True)
    return parser


async def serve(routes: Sequence[Route], *, ready_fd: int) -> None:
    """Serve until SIGTERM; the url goes to `ready_fd` when the server begins to serve."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        os.write(ready_fd, f"{url}\n".encode())
        os.close(ready_fd)
        yield

    config = Config()
    config.bind = [f"fd://{sock.detach()}"]
    config.accesslog = None
    config.keep_alive_timeout = 30.0
    config.graceful_timeout = 0.2
    app: Any = Starlette(routes=routes, lifespan=lifespan)
    await hypercorn.asyncio.serve(app, config, shutdown_trigger=stopping.wait)
