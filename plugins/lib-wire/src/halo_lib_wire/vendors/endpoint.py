"""Base URLs: what people write, made exact."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import urlsplit, urlunsplit

from halo_kernel import BadInput


@dataclass(frozen=True)
class Endpoint:
    """A base URL without a slash at its end; what is asked for at every call is worked out once."""

    url: str

    @cached_property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: where a key may go."""
        parts = urlsplit(self.url)
        return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)

    @cached_property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        host = self.origin[1]
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    @cached_property
    def shown(self) -> str:
        """The URL for people: without credentials and query."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def path(self, name: str) -> str:
        """Return the URL of a path below the base; a query stays behind it."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path=f"{parts.path}/{name}"))


def parse_endpoint(text: str, *, field: str, tails: tuple[str, ...] = (), example: str = "") -> Endpoint:
    """Return the endpoint that a person wrote, with or without a slash or one of `tails` at its end.

    Raises `BadInput` naming `field`, with `example`, when it is no http or https URL.
    """
    found = _parsed(text, tails)
    if found is None:
        such = f" such as {example}" if example else ""
        raise BadInput(f"{field} must be an http or https URL{such}", field=field)
    return found


@lru_cache(maxsize=256)
def _parsed(text: str, tails: tuple[str, ...]) -> Endpoint | None:
    try:
        parts = urlsplit(text.strip())
        is_one = len(text.split()) == 1  # which `urlsplit` does not ask
        usable = is_one and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    if not usable:
        return None
    path = parts.path.rstrip("/")
    tail = next((tail for tail in tails if path.endswith(tail)), "")
    return Endpoint(urlunsplit(parts._replace(path=path.removesuffix(tail).rstrip("/"), fragment="")))
