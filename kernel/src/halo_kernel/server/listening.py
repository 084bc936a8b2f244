"""The listening socket, and hypercorn behind it: the one place that knows which server speaks HTTP."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, cast

from ..errors import BadInput, Conflict
from ..log import logger

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import ASGIApp

END_SECONDS = 2.0
_BACKLOG = 512


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`; port 0 takes any free one.

    Raises `Conflict` when the port is taken, `BadInput` when the host or port cannot be listened on.
    """
    if not 0 <= port <= 65_535:
        raise BadInput(f"The port must be between 0 and 65535, not {port}.", field="server.port")
    family, address = _address(host, port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows it would let two programs share the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)  # at once: two sockets may bind to one address, but only one may listen
    except OSError as error:
        sock.close()
        raise _refused(host, port, error) from error
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the address under which this machine reaches a socket."""
    host, port = sock.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


def is_loopback(sock: socket.socket) -> bool:
    """Tell whether only this machine can reach a socket."""
    return ipaddress.ip_address(sock.getsockname()[0]).is_loopback


async def serve(app: ASGIApp, sock: socket.socket, *, stopping: asyncio.Event, root_path: str = "") -> None:
    """Serve until `stopping` is set, then end within `END_SECONDS`: streams end themselves, idle connections are cut.

    Takes the socket over. What then still hangs on a client that neither reads nor goes away is left behind.
    """
    import hypercorn.asyncio
    from hypercorn.config import Config

    log = logging.getLogger("halo.hypercorn")
    log.setLevel(logging.ERROR)
    config = Config()
    descriptor = sock.detach()
    config.bind = [f"fd://{descriptor}"]
    config.errorlog = log
    config.accesslog = None
    config.include_server_header = False
    config.graceful_timeout = END_SECONDS / 2
    config.keep_alive_timeout = 30.0
    config.websocket_ping_interval = 20.0
    config.h11_max_incomplete_size = 64 * 1024
    config.root_path = root_path
    forever: Coroutine[Any, Any, None] = cast("Any", hypercorn.asyncio).serve(
        app, config, shutdown_trigger=stopping.wait
    )
    serving = asyncio.create_task(forever, name="http.server")
    stop = asyncio.create_task(stopping.wait(), name="http.stop")
    try:
        await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
        if stop.done():
            await _end(serving)
    finally:
        stop.cancel()
        serving.cancel()
    if serving.done() and not serving.cancelled():
        serving.result()


async def _end(serving: asyncio.Task[None]) -> None:
    """Wait for connections to end, but not for ever, as a server does by itself from Python 3.12 on."""
    await asyncio.wait({serving}, timeout=END_SECONDS)
    if not serving.done():
        logger("server").info("connections did not end in time and were cut")
        serving.cancel()
        await asyncio.wait({serving}, timeout=END_SECONDS / 4)


def hush(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Handle a loop's exceptions while it ends: what is cut then must not fill the log with tracebacks."""
    logger("server").debug("while ending: " + str(context.get("message", "")), error=str(context.get("exception", "")))


def _address(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the family and address of a host's name; IPv4 first, because that is where people's links lead."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise BadInput(f"This machine does not know the host {host!r}.", field="server.host") from error
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def _refused(host: str, port: int, error: OSError) -> Conflict | BadInput:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"Port {port} on {host} is taken by another program.",
            advice="Stop that program, or choose another port with `--port` (0 takes any free one).",
        )
    if error.errno == errno.EACCES:
        return BadInput(
            f"This user may not listen on port {port}.", field="server.port", advice="Choose a port from 1024 on."
        )
    return BadInput(f"The server cannot listen on {host}: {error.strerror or error}.", field="server.host")
