"""What an aiohttp client asks before it dials, by shape: aiohttp itself, slow to import, is not needed for it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from halo_kernel import Egress

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver, ResolveResult
else:
    AbstractResolver = object

Handler = Callable[[Any], Awaitable[Any]]


class Resolver(AbstractResolver):
    """An `aiohttp.abc.AbstractResolver`, for `aiohttp.TCPConnector`: the address that was checked is dialled.

    Source: https://docs.aiohttp.org/en/stable/abc.html
    """

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host that may be dialled, of one family. Raises what `Egress.resolve` raises."""
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        ips = [each.ip for each in await self._egress.resolve(host, port)]
        found = [(ip, socket.AF_INET6 if ":" in ip else socket.AF_INET) for ip in ips]
        return [
            {"hostname": host, "host": ip, "port": port, "family": kind, "proto": 0, "flags": flags}
            for ip, kind in found
            if family in (socket.AF_UNSPEC, kind)
        ]

    async def close(self) -> None:
        """Nothing to close."""


def middleware(egress: Egress) -> Callable[[Any, Handler], Awaitable[Any]]:
    """Return a client middleware that checks every hop: a redirect or a bare address asks no resolver."""

    async def check(request: Any, handler: Handler) -> Any:
        await egress.resolve(request.url.host or "", request.url.port or 0)
        return await handler(request)

    return check
