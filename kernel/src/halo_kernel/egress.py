"""The one resolver for connections that a model or a remote names: what it returns was checked, and is what is dialled.

Which addresses are special say https://www.iana.org/assignments/iana-ipv4-special-registry and
https://www.iana.org/assignments/iana-ipv6-special-registry. They are kept here and read strictly, because the
`ipaddress` modules of different Pythons disagree.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .contracts import Address
from .errors import BadInput, Forbidden

IP = IPv4Address | IPv6Address
Allowed = tuple[str | IPv4Network | IPv6Network, int]
LookUp = Callable[[str], Awaitable[Iterable[str]]]

_SPECIAL = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
    "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 "
    "168.63.129.16/32 "  # public by its number, yet Azure's own door to each of its machines
    "::/3 2001::/23 2001:db8::/32 2002::/16 3fff::/20 4000::/2 8000::/1"
)
_CLOSED = tuple(map(ip_network, _SPECIAL.split()))
_NAT64 = IPv6Network("64:ff9b::/96")  # how a network without IPv4 reaches it: RFC 6052
_ENTRY = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]+):(\d{1,5})")
_NAME = re.compile(r"[^\s\0/\\@\[\]]+")  # a system's look-up ends a name at NUL, where a pattern would not


def parse_allowed(entry: str) -> Allowed:
    """Read an entry of `egress.allow` as a network or a host's pattern, and a port, 0 for any. Raises `ValueError`."""
    found = _ENTRY.fullmatch(entry)
    target, port = (found[1], int(found[2])) if found else (entry, 0)
    if not found or 0 < port <= 0xFFFF:
        with suppress(ValueError):
            return ip_network(target.strip("[]"), strict=False), port
        if _NAME.fullmatch(target) and ":" not in target:
            return target.lower().rstrip("."), port
    raise ValueError(f"allow holds {entry!r}, which is no host, address or CIDR, with :port or without")


def is_public(ip: IP) -> bool:
    """Tell whether an address belongs to the public internet, and to no machine or network of one's own."""
    return not any(_translated(ip) in network for network in _CLOSED)


async def look_up(host: str) -> Iterable[str]:
    """Return the addresses that the system knows of a host, in the order to try them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [f"{at[0]}%{at[3]}" if len(at) == 4 and at[3] else str(at[0]) for *_, at in found]


class Egress:
    """Keeps models and remotes away from this machine and its networks.

    Dial the addresses that it returns, not the name: a second look-up may answer differently. A redirect names a new
    host, and a client that is given an address asks no resolver, so both are resolved here too; the library
    `halo-lib-egress` has both for aiohttp.

    `allow` gives the setting's entries as they are now.
    """

    def __init__(self, allow: Callable[[], Sequence[str]], look_up: LookUp = look_up) -> None:
        self._allow = allow
        self._look_up = look_up

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a host (or of an address) that may be dialled, at least one.

        Only public ones, and those that the setting `egress.allow` lists. Raises `Forbidden` when there are none,
        `BadInput` for what can be no host, `OSError` when the name is not known.
        """
        name = host.strip("[]").rstrip(".").lower()
        try:
            if not _NAME.fullmatch(name):
                raise ValueError("it is empty or holds what no name may")
            found = dict.fromkeys(map(_unwrapped, await self._look_up(name)))
        except ValueError as error:  # UnicodeError: no name that DNS could carry
            raise BadInput(f"{host!r} is no host: {error}", field="host") from error
        passed = [Address(host=name, ip=str(ip), port=port) for ip in found if self._may_dial(name, ip, port)]
        if not passed:
            why = f"leads to {next(iter(found))}, an address of this machine, its network or its cloud, no public one"
            advice = (
                f"to allow it, add the host, the address or its network, or one of them with :{port}, to egress.allow"
            )
            raise Forbidden(f"{name} {why}", advice=advice)
        return passed

    def _may_dial(self, host: str, ip: IP, port: int) -> bool:
        listed = [target for target, only in map(parse_allowed, self._allow()) if only in (0, port)]
        return is_public(ip) or any(
            fnmatchcase(host, target) if isinstance(target, str) else ip in target or _translated(ip) in target
            for target in listed
        )


def _unwrapped(text: str) -> IP:
    """Return an address; one that IPv6 merely wraps around IPv4 is the IPv4 one, and is dialled as that."""
    ip = ip_address(text)
    return getattr(ip, "ipv4_mapped", None) or ip


def _translated(ip: IP) -> IP:
    """Return the address that the network's own translator, if it goes through one, makes of it."""
    return IPv4Address(int(ip) & 0xFFFFFFFF) if ip.version == 6 and ip in _NAT64 else ip
