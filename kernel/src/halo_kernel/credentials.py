"""What lets an operator in: the signed cookie, this server's local token, one-time links, and the lock-out.

A cookie and a token are 256-bit secrets that nobody can guess; the lock-out is for passwords and plugins' own schemes,
and counts the wrong tokens all the same.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from .contracts import Clock
from .errors import LockedOut, WrongCredentials
from .records import Principal
from .secrets import read_secret, write_secret

COOKIE = "halo_token"
COOKIE_LIFE = 14 * 86_400
COOKIE_REFRESH = 86_400
LINK_LIFE = 300
MAX_WRONG = 5
LOCK_SECONDS = 15 * 60
_MAX_COUNTS = 10_000
_MAX_LINKS = 1_000
_KEY_BYTES = 32
_HEADER = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")


class _Claims(msgspec.Struct, frozen=True, kw_only=True):
    iat: int
    exp: int
    who: Principal


class Cookies:
    """Signs and reads cookies: a JWT (HS256) that expires after 14 days."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def sign(self, principal: Principal) -> str:
        """Return the value of a new cookie."""
        now = self._clock.now() // 1000
        claims = msgspec.json.encode(_Claims(iat=now, exp=now + COOKIE_LIFE, who=principal))
        payload = _HEADER + b"." + base64.urlsafe_b64encode(claims).rstrip(b"=")
        return (payload + b"." + self._signature(payload)).decode()

    def read(self, value: str) -> tuple[Principal, float] | None:
        """Return whom a cookie was made for and its age in seconds; None when it is not ours, changed, or expired."""
        payload, _, signature = value.encode("utf-8", "replace").rpartition(b".")
        if not hmac.compare_digest(signature, self._signature(payload)):
            return None
        with suppress(msgspec.DecodeError):  # signed by a version with other claims
            claims = msgspec.json.decode(base64.urlsafe_b64decode(payload.partition(b".")[2] + b"=="), type=_Claims)
            now = self._clock.now() / 1000
            return (claims.who, now - claims.iat) if now < claims.exp else None
        return None

    def _signature(self, payload: bytes) -> bytes:
        return base64.urlsafe_b64encode(hmac.digest(self._key, payload, "sha256")).rstrip(b"=")


class Links:
    """One-time links: each lets one browser in, once, within five minutes. Only the hash of its token is kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def make(self) -> str:
        """Return the token of a new link."""
        token = secrets.token_urlsafe(32)
        self._ends[_digest(token)] = self._clock.monotonic() + LINK_LIFE
        if len(self._ends) > _MAX_LINKS:
            del self._ends[next(iter(self._ends))]
        return token

    def use(self, token: str) -> bool:
        """Tell whether a link lets its bearer in, which it does no more from now on."""
        return self._clock.monotonic() < self._ends.pop(_digest(token), 0.0)


class Attempts:
    """Counts wrong credentials by scheme and address: after five, they are locked out for 15 minutes from the last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: dict[tuple[str, str], tuple[int, float]] = {}  # how many, and when the last one; oldest first

    @contextmanager
    def judging(self, scheme: str, address: str) -> Generator[None]:
        """Count the `WrongCredentials` that the work inside raises; success clears the count.

        Raises `LockedOut`, before the work and also after it: while it waited, others may have been guessing.
        """
        key = scheme, _network(address)
        self._recent(key)
        try:
            yield
        except WrongCredentials:
            count = self._recent(key) + 1
            self._wrong.pop(key, None)  # so that it is the newest now
            self._wrong[key] = count, self._clock.monotonic()
            if len(self._wrong) > _MAX_COUNTS:
                del self._wrong[next(iter(self._wrong))]
            raise
        self._recent(key)
        self._wrong.pop(key, None)

    def _recent(self, key: tuple[str, str]) -> int:
        """Return how many were wrong of late. Raises `LockedOut` when these are too many."""
        count, last = self._wrong.get(key, (0, 0.0))
        rest = last + LOCK_SECONDS - self._clock.monotonic()
        if count >= MAX_WRONG and rest > 0:
            raise LockedOut("Too many attempts with wrong credentials, try again later.", retry_after=rest)
        return count if rest > 0 else 0


class Credentials:
    """All that the kernel's own scheme `operator` accepts, for one running server of a home.

    The key that signs the home's cookies is made once and outlives the server.
    """

    def __init__(self, home: Path, clock: Clock) -> None:
        path, key = home / "secrets" / "cookie.key", b""
        with suppress(ValueError):  # what is there is none
            key = bytes.fromhex(read_secret(path) or "")
        if len(key) != _KEY_BYTES:
            write_secret(path, (key := secrets.token_bytes(_KEY_BYTES)).hex() + "\n")
        self.cookies = Cookies(key, clock)
        self.links = Links(clock)
        self.attempts = Attempts(clock)
        self.token = secrets.token_urlsafe(32)

    def is_token(self, given: str) -> bool:
        """Tell whether `given` is this server's local token, in constant time."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _network(address: str) -> str:
    """Return what one person has of addresses: a whole /64 of IPv6."""
    with suppress(ValueError):
        parsed = ipaddress.IPv6Address(address)
        return str(parsed.ipv4_mapped or ipaddress.ip_network((int(parsed), 64), strict=False))
    return address
