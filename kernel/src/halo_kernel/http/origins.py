"""Which names this server answers to, which pages may use it, and what a trusted proxy says.

`Host` guards against DNS rebinding: a foreign page whose name suddenly leads here still sends its own name. `Origin`
guards against requests that a foreign page makes with this server's cookie.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from ..errors import Forbidden
from ..settings import ServerSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Content-Type, Authorization, x-token, Idempotency-Key, Last-Event-ID",
    "Access-Control-Max-Age": "86400",
}
_PORTS = {"http": ":80", "https": ":443"}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+?)\.?(:\d*)?")


def is_open(scheme: str) -> bool:
    """Tell whether a scheme reads no cookie, so that any page may use its routes."""
    return scheme == "signed" or scheme.startswith("account:")


@dataclass(frozen=True, kw_only=True)
class Origins:
    """The names and origins that a server accepts by its settings; `bound` is the host it listens on."""

    bound: str
    server: ServerSettings

    def check(self, method: str, headers: Mapping[str, str], *, scheme: str) -> None:
        """Raise `Forbidden` for a foreign `Host`, and for a change with a foreign `Origin`."""
        for host in () if is_open(scheme) else self._hosts(headers):
            if not self._answers_to(host):
                said = f"This server does not answer to the name {host!r}."
                raise Forbidden(said, advice="Add the name to the setting server.allowed_hosts if it is yours.")
        if method not in SAFE_METHODS and self._is_foreign(headers, scheme):
            said = f"Pages of {headers.get('origin') or 'another site'} may not use this server."
            raise Forbidden(said, advice="Add the origin to the setting server.cors_origins if it is yours.")

    def cors(self, origin: str | None, *, scheme: str) -> dict[str, str]:
        """Return the headers that let the page of `origin` read an answer; empty when it may not."""
        if origin is None:
            return {}
        allowed = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if any(origin.lower() == listed.lower().rstrip("/") for listed in self.server.cors_origins):
            return {**allowed, "Access-Control-Allow-Credentials": "true"}
        return allowed if is_open(scheme) and not self.server.cors_origins else {}

    def address(self, connection: HTTPConnection) -> str:
        """Return the caller's address: the socket's, or behind a trusted proxy the first that it forwards."""
        forwarded = self.forwarded(connection.headers, "for")
        return forwarded or (connection.client.host if connection.client else "unknown")

    def forwarded(self, headers: Mapping[str, str], what: str) -> str:
        """Return the first entry of `X-Forwarded-<what>`; empty without a proxy that is trusted."""
        return headers.get(f"x-forwarded-{what}", "").split(",")[0].strip() if self.server.trust_proxy else ""

    def _hosts(self, headers: Mapping[str, str]) -> list[str]:
        """Return the names a request was sent to: its `Host`, and behind a proxy the one the proxy was asked for."""
        forwarded = self.forwarded(headers, "host")
        return [headers.get("host", ""), *([forwarded] if forwarded else [])]

    def _answers_to(self, host: str) -> bool:
        named = _HOST.fullmatch(host.lower())
        name = named[1] if named else ""
        address, bound = _address(name), _address(self.bound)
        if address is not None and (address.is_loopback or bound is None or not bound.is_loopback):
            return True  # no DNS name, so nothing can be rebound
        names = [self.bound.lower(), *(allowed.lower() for allowed in self.server.allowed_hosts)]
        suffixes = tuple(each for each in names if each.startswith("."))
        return bool(name) and ("*" in names or name in names or name.endswith(suffixes))

    def _is_foreign(self, headers: Mapping[str, str], scheme: str) -> bool:
        origin = headers.get("origin")
        if origin is None:
            return headers.get("sec-fetch-site") == "cross-site" and not is_open(scheme)
        is_ours = any(_same_host(origin, host) for host in self._hosts(headers))
        return not (is_ours or self.cors(origin, scheme=scheme))


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a name is, or always stands for."""
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.ip_address("127.0.0.1")
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _same_host(origin: str, host: str) -> bool:
    """Tell whether an `Origin` and a `Host` name the same place; a port left out is the origin's scheme's."""
    scheme, _, place = origin.lower().partition("://")
    default = _PORTS.get(scheme, "")
    return bool(default) and place.removesuffix(default) == host.lower().removesuffix(default)
