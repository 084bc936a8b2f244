"""Which names this server answers to, and which pages may use it.

`Host` guards against DNS rebinding: a foreign page whose name suddenly leads here still sends its own name. `Origin`
guards against requests that a foreign page makes with this server's cookie.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
_HEADERS = "Content-Type, Authorization, x-token, Idempotency-Key, Last-Event-ID"


def is_open(scheme: str) -> bool:
    """Tell whether a scheme reads no cookie, so that any page may use its routes."""
    return scheme == "signed" or scheme.startswith("account:")


@dataclass(frozen=True, kw_only=True)
class Origins:
    """The names and origins that a server accepts; `bound` is the host it listens on."""

    bound: str
    allowed_hosts: Sequence[str] = ()
    cors_origins: Sequence[str] = ()
    trust_proxy: bool = False

    def check(self, method: str, headers: Mapping[str, str], *, scheme: str) -> None:
        """Raise `Forbidden` for a request with a foreign `Host`, or one that changes something with a foreign `Origin`.

        A WebSocket upgrade counts as a change: pass the method `WEBSOCKET`.
        """
        if not is_open(scheme):
            self._check_hosts(headers)
        if method not in SAFE_METHODS:
            self._check_origin(headers, scheme=scheme)

    def cors(self, origin: str | None, *, scheme: str) -> dict[str, str]:
        """Return the headers that let the page of `origin` read an answer; empty when it may not."""
        if origin is None:
            return {}
        if self._is_listed(origin):
            return {
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Credentials": "true",
                "Vary": "Origin",
            }
        if is_open(scheme) and not self.cors_origins:
            return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        return {}

    def preflight(self, origin: str | None, *, scheme: str) -> dict[str, str]:
        """Return the headers that answer a browser's question before a request from another origin."""
        allowed = self.cors(origin, scheme=scheme)
        if not allowed:
            return {}
        return {
            **allowed,
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _HEADERS,
            "Access-Control-Max-Age": "86400",
        }

    def _check_hosts(self, headers: Mapping[str, str]) -> None:
        for given in _hosts(headers, trust_proxy=self.trust_proxy):
            if not self._answers_to(_name(given)):
                raise Forbidden(
                    f"This server does not answer to the name {given!r}.",
                    advice="Add the name to the setting server.allowed_hosts if it is yours.",
                )

    def _answers_to(self, name: str) -> bool:
        if not name:
            return False
        if _is_loopback(name) or name == self.bound.lower().strip("[]") or "*" in self.allowed_hosts:
            return True
        if _is_address(name):  # no DNS name, so nothing can be rebound
            return not _is_loopback(self.bound) or name in self.allowed_hosts
        return any(
            name == allowed.lower() or (allowed.startswith(".") and name.endswith(allowed.lower()))
            for allowed in self.allowed_hosts
        )

    def _check_origin(self, headers: Mapping[str, str], *, scheme: str) -> None:
        origin = headers.get("origin")
        if origin is None:
            foreign = headers.get("sec-fetch-site") == "cross-site" and not is_open(scheme)
        elif self._is_listed(origin):
            foreign = False
        elif is_open(scheme):
            foreign = bool(self.cors_origins)
        else:
            hosts = _hosts(headers, trust_proxy=self.trust_proxy)
            foreign = not any(_same_host(origin, host) for host in hosts)
        if foreign:
            raise Forbidden(
                f"Pages of {origin or 'another site'} may not use this server.",
                advice="Add the origin to the setting server.cors_origins if it is yours.",
            )

    def _is_listed(self, origin: str) -> bool:
        return any(origin.lower() == listed.lower().rstrip("/") for listed in self.cors_origins)


def _hosts(headers: Mapping[str, str], *, trust_proxy: bool) -> list[str]:
    """Return the names a request was sent to: its `Host`, and behind a proxy the one that the proxy was asked for."""
    forwarded = headers.get("x-forwarded-host", "").split(",")[0].strip() if trust_proxy else ""
    return [headers.get("host", ""), *([forwarded] if forwarded else [])]


def _name(host: str) -> str:
    """Return the name in a `Host` header: no port, no brackets, no last dot, lower case."""
    name, found, _ = host.rpartition(":")
    if not found or host.endswith("]"):
        name = host
    return name.strip().strip("[]").rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _same_host(origin: str, host: str) -> bool:
    """Tell whether an `Origin` and a `Host` name the same place; a port left out is the origin's scheme's."""
    try:
        theirs, ours = urlsplit(origin), urlsplit(f"//{host}")
        default = _PORTS.get(theirs.scheme)
        same_port = (theirs.port or default) == (ours.port or default)
    except ValueError:
        return False
    return default is not None and theirs.hostname == ours.hostname and same_port
