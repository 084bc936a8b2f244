"""The listening socket, and hypercorn behind it: the one place that knows which server speaks HTTP."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from starlette.types import ASGIApp

from ..errors import BadInput, Conflict
from ..supervisor import end_task

END_SECONDS = 2.0


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`; port 0 takes any free one.

    Raises `Conflict` when the port is taken, `BadInput` when the host or port cannot be listened on.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)  # people's links lead to IPv4
        every = address[0] == "::" and socket.has_dualstack_ipv6()
        return socket.create_server((str(address[0]), port), family=family, backlog=512, dualstack_ipv6=every)
    except (OSError, OverflowError, UnicodeError) as error:
        if getattr(error, "errno", 0) == errno.EADDRINUSE:
            advice = "Stop that program, or choose another port with `--port` (0 takes any free one)."
            raise Conflict(f"Port {port} on {host} is taken by another program.", advice=advice) from error
        raise BadInput(f"The server cannot listen on {host}, port {port}: {error}.", field="server.host") from error


def url_of(sock: socket.socket) -> str:
    """Return the address under which this machine reaches a socket."""
    return _url(sock, "::1" if sock.family == socket.AF_INET6 else "127.0.0.1")


def address_of(sock: socket.socket) -> str:
    """Return the address under which other machines reach a socket, if they can.

    For a socket of all addresses it is the one towards the rest of the world: connecting a datagram socket asks nobody.
    """
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect(("192.0.2.1", 9))
        return _url(sock, towards.getsockname()[0])
    return url_of(sock)


def _url(sock: socket.socket, instead_of_all: str) -> str:
    host, port = sock.getsockname()[:2]
    host = instead_of_all if ipaddress.ip_address(host).is_unspecified else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(sock: socket.socket) -> bool:
    """Tell whether only this machine can reach a socket."""
    return ipaddress.ip_address(sock.getsockname()[0]).is_loopback


@asynccontextmanager
async def serving(
    app: ASGIApp, sock: socket.socket, *, stopping: asyncio.Event, root_path: str = ""
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve on a socket, which is taken over, for as long as the context lasts; the task inside ends only by a failure.

    Leaving sets `stopping` and takes at most `END_SECONDS`: streams end themselves, idle connections are cut, and what
    then still hangs on a client that neither reads nor goes away is left behind.
    """
    import hypercorn.asyncio.run
    from hypercorn.asyncio.tcp_server import TCPServer
    from hypercorn.config import Config

    class Connection(TCPServer):
        async def _read_data(self) -> None:
            await super()._read_data()
            await self.idle_task.stop()  # the client is gone: else its descriptor stays as long as an idle one's

    cast("Any", hypercorn.asyncio.run).TCPServer = Connection
    log = logging.getLogger("halo.hypercorn")
    log.setLevel(logging.ERROR)
    config = Config.from_mapping(bind=[f"fd://{sock.detach()}"], errorlog=log, include_server_header=False)
    config.graceful_timeout, config.keep_alive_timeout, config.root_path = END_SECONDS / 2, 30.0, root_path
    serve: Callable[..., Coroutine[Any, Any, None]] = cast("Any", hypercorn.asyncio).serve
    server = asyncio.create_task(serve(app, config, shutdown_trigger=stopping.wait), name="http.server")
    try:
        yield server
    finally:
        stopping.set()
        await asyncio.wait({server}, timeout=END_SECONDS)
        if server.done():
            server.result()
        else:  # from Python 3.12 on, a server waits for its connections for ever
            await end_task(server, name="connections", within=END_SECONDS / 4)
