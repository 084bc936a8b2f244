"""The one resolver for connections that a model or a remote names."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where to dial, checked: `ip` is an address and never a name; `host` is what was asked for, for TLS and HTTP."""

    host: str
    ip: str
    port: int

    @property
    def family(self) -> socket.AddressFamily:
        """The socket's family."""
        return socket.AF_INET6 if ":" in self.ip else socket.AF_INET


class Egress(Protocol):
    """Keeps models and remotes away from this machine and its networks.

    Dial the addresses that it returns, not the name: a second look-up may answer differently. A redirect is a new name.
    With aiohttp (3.12 or later), `resolver` checks each name as it is dialled, and `middleware` each hop, also those
    that aiohttp dials without its resolver because they are addresses:

        ClientSession(connector=TCPConnector(resolver=egress.resolver()), middlewares=[egress.middleware])
    """

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a host that may be dialled, at least one.

        Only public ones, and those that the setting `egress.allow` lists. Raises `Forbidden` when there are none,
        `BadInput` for what can be no host or port, `OSError` when the name is not known.
        """
        ...

    async def check(self, url: str) -> Sequence[Address]:
        """Resolve the host of an `http`, `https`, `ws` or `wss` URL; raises what `resolve` raises."""
        ...

    def resolver(self) -> Any:
        """Return an `aiohttp.abc.AbstractResolver`, by its shape, for `aiohttp.TCPConnector`."""
        ...

    async def middleware(self, request: Any, handler: Any) -> Any:
        """Check where a request goes, then let it go: an aiohttp client middleware."""
        ...
