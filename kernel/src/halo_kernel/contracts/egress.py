"""The one resolver for connections that a model or a remote names."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where to dial, checked: `ip` is an address and never a name; `host` is what was asked for, for TLS and HTTP."""

    host: str
    ip: str
    port: int


class Egress(Protocol):
    """Keeps models and remotes away from this machine and its networks.

    Dial the addresses that it returns, not the name: a second look-up may answer differently. A redirect names a new
    host, and a client that is given an address asks no resolver, so both are resolved here too; the library
    `halo-lib-egress` has both for aiohttp.
    """

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a host (or of an address) that may be dialled, at least one.

        Only public ones, and those that the setting `egress.allow` lists. Raises `Forbidden` when there are none,
        `BadInput` for what can be no host, `OSError` when the name is not known.
        """
