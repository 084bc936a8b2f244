"""The one resolver for connections that a model or a remote names: what it returns was checked, and is what is dialled.

What is public follows the registries of special-purpose addresses
(https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry),
read strictly and kept here, because `ipaddress` of different Pythons disagree.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from .contracts import Address
from .errors import BadInput, Forbidden

IP = IPv4Address | IPv6Address
Lookup = Callable[[str], Awaitable[Iterable[str]]]

_SPECIAL = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
    "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 "
    "168.63.129.16/32 "  # public by its number, yet Azure's own door to each of its machines
    "2001::/23 2001:db8::/32 2002::/16 3fff::/20"
)
_CLOSED = tuple(map(ip_network, _SPECIAL.split()))
_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")  # how a network without IPv4 reaches it: RFC 6052
_HOST = re.compile(r"[^\s/\\@?#\[\]\x00-\x1f\x7f]{1,253}")
_NAME = re.compile(r"(\*\.)?[^\s:/\\@?#*\[\]]+")
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


@dataclass(frozen=True)
class Allowed:
    """One entry of `egress.allow`: a host, or `*.` and a domain, or a network; with a port, that port alone."""

    name: str
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None

    @classmethod
    def parse(cls, entry: str) -> Allowed:
        """Read `host`, `*.domain`, an address or a CIDR, each with `:port` or without. Raises `ValueError`."""
        host, _, port = entry.rpartition(":")
        for name, number in ((entry, None), (host, port)):
            try:
                network = ip_network(name[1:-1] if name[:1] + name[-1:] == "[]" else name, strict=False)
            except ValueError:
                network = None
            is_port = number is None or (number.isascii() and number.isdecimal() and 0 < int(number) <= 0xFFFF)
            if is_port and (network or _NAME.fullmatch(name)):
                return cls(name.lower().rstrip("."), network, None if number is None else int(number))
        raise ValueError(f"allow holds {entry!r}, which is no host, *.domain, address or CIDR, with :port or without")

    def covers(self, host: str, ips: Iterable[IP], port: int) -> bool:
        """Tell whether a host that leads to one address, given in all its forms, may be dialled."""
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return any(ip in self.network for ip in ips)
        return host.endswith(self.name[1:]) if self.name.startswith("*") else host == self.name


def _forms(ip: IP) -> list[IP]:
    """Return an address and the IPv4 address that a translator of the network makes of it."""
    inner = isinstance(ip, IPv6Address) and ip in _NAT64
    return [ip, IPv4Address(int(ip) & 0xFFFFFFFF)] if inner else [ip]


def is_public(ip: IP) -> bool:
    """Tell whether an address belongs to the public internet, and to no machine or network of one's own."""
    ip = _forms(ip)[-1]
    is_open = isinstance(ip, IPv4Address) or ip in _UNICAST
    return is_open and not any(ip in network for network in _CLOSED)


async def _look_up(host: str) -> Iterable[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [f"{at[0]}%{at[3]}" if len(at) == 4 and at[3] else str(at[0]) for *_, at in found]


class Egress:
    """See `contracts.Egress`. `allow` gives the setting's entries as they are now; `look_up` a host's addresses."""

    def __init__(self, allow: Callable[[], Sequence[str]], *, look_up: Lookup = _look_up) -> None:
        self._allow = allow
        self._look_up = look_up

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """See `contracts.Egress.resolve`."""
        name = host[1:-1] if host[:1] + host[-1:] == "[]" else host
        if not _HOST.fullmatch(name):
            raise BadInput(f"{host!r} is no host", field="host")
        if not 0 <= port <= 0xFFFF:
            raise BadInput(f"the port of {host} must be between 0 and 65535, not {port}", field="port")
        try:
            found = dict.fromkeys(map(_ip, await self._look_up(name)))
        except UnicodeError as error:  # a label that is empty or longer than DNS has room for
            raise BadInput(f"{host!r} is no host: {error}", field="host") from error
        allowed = [Allowed.parse(each) for each in self._allow()]
        asked = name.lower().rstrip(".")
        passed = [ip for ip in found if is_public(ip) or any(each.covers(asked, _forms(ip), port) for each in allowed)]
        if found and not passed:
            raise _refusal(host, next(iter(found)), port)
        if not passed:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} has no address")
        return [Address(host=name, ip=str(ip), port=port) for ip in passed]

    async def check(self, url: str) -> Sequence[Address]:
        """See `contracts.Egress.check`."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise BadInput(f"{url!r} is no URL: {error}", field="url") from error
        if not host or parts.scheme not in _PORTS or re.search(r"[\s\\]", url):  # some parsers end a host at a `\`
            raise BadInput(f"{url!r} is no URL of http, https, ws or wss", field="url")
        return await self.resolve(host, port)

    def resolver(self) -> Any:
        """See `contracts.Egress.resolver`."""
        return _Resolver(self)

    async def middleware(self, request: Any, handler: Any) -> Any:
        """See `contracts.Egress.middleware`."""
        await self.resolve(request.url.host or "", request.url.port or 0)
        return await handler(request)


class _Resolver:
    """An `aiohttp.abc.AbstractResolver` by shape (https://docs.aiohttp.org/en/stable/abc.html#abstract-resolver)."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[dict[str, Any]]:
        found = [each for each in await self._egress.resolve(host, port) if family in (socket.AF_UNSPEC, each.family)]
        if not found:
            raise OSError(None, f"{host} has no address of that family")
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            {"hostname": host, "host": each.ip, "port": port, "family": each.family, "proto": 0, "flags": flags}
            for each in found
        ]

    async def close(self) -> None:
        pass


def _ip(text: str) -> IP:
    """Return an address; one that IPv6 merely wraps around IPv4 is the IPv4 one, and is dialled as that."""
    ip = ip_address(text)
    return getattr(ip, "ipv4_mapped", None) or ip


def _refusal(host: str, ip: IP, port: int) -> Forbidden:
    where = f"{host} leads to {ip}, which is" if host.strip("[]") != str(ip) else f"{ip} is"
    dialled = f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"
    return Forbidden(
        f"{where} an address of this machine, its network or its cloud, not a public one",
        advice=f"to allow it, add {host.strip('[]')}, {dialled} or a network to the setting egress.allow",
    )
