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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from .errors import LockedOut, WrongCredentials
from .records import Principal

if TYPE_CHECKING:
    from .contracts import Clock

COOKIE = "halo_token"
COOKIE_LIFE = 14 * 86_400
COOKIE_REFRESH = 86_400
LINK_LIFE = 300
MAX_WRONG = 5
LOCK_SECONDS = 15 * 60
_MAX_BUCKETS = 10_000
_MAX_LINKS = 1_000
_HEADER = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")


class _Claims(msgspec.Struct, frozen=True, kw_only=True):
    iat: int
    exp: int
    who: Principal


@dataclass(frozen=True, kw_only=True)
class Cookie:
    """What a valid cookie says: who signed in, and the age of the cookie in seconds."""

    principal: Principal
    age: float


class Cookies:
    """Signs and reads cookies: a JWT (HS256) that expires after 14 days."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = key
        self._clock = clock
        self._decoder = msgspec.json.Decoder(_Claims)

    def sign(self, principal: Principal) -> str:
        """Return the value of a new cookie."""
        now = self._clock.now() // 1000
        claims = msgspec.json.encode(_Claims(iat=now, exp=now + COOKIE_LIFE, who=principal))
        payload = _HEADER + b"." + base64.urlsafe_b64encode(claims).rstrip(b"=")
        return (payload + b"." + self._signature(payload)).decode()

    def read(self, value: str) -> Cookie | None:
        """Return what a cookie says, or None when it is not ours, was changed, or has expired."""
        payload, _, signature = value.encode("utf-8", "replace").rpartition(b".")
        if not hmac.compare_digest(signature, self._signature(payload)):
            return None
        head, _, body = payload.partition(b".")
        if head != _HEADER:
            return None
        try:
            claims = self._decoder.decode(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
        except msgspec.DecodeError:  # signed by a version with other claims
            return None
        now = self._clock.now() / 1000
        return Cookie(principal=claims.who, age=now - claims.iat) if now < claims.exp else None

    def _signature(self, payload: bytes) -> bytes:
        return base64.urlsafe_b64encode(hmac.digest(self._key, payload, "sha256")).rstrip(b"=")


@dataclass(kw_only=True)
class _Link:
    target: str
    until: float
    used: bool = False


class Links:
    """One-time links: each lets one browser in, once, within five minutes. Only the hash of its token is kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[bytes, _Link] = {}

    def make(self, target: str) -> str:
        """Return the token of a new link that leads to the path `target`."""
        self._forget()
        token = secrets.token_urlsafe(32)
        self._links[_digest(token)] = _Link(target=target, until=self._clock.monotonic() + LINK_LIFE)
        return token

    def use(self, token: str) -> str | None:
        """Use a link up and return its target; None when it was used already or is too old.

        Raises `WrongCredentials` for a token that no link of this server ever had.
        """
        link = self._find(token)
        if link.used or self._clock.monotonic() >= link.until:
            return None
        link.used = True
        return link.target

    def target(self, token: str) -> str:
        """Return where a link leads, used or not. Raises `WrongCredentials` like `use`."""
        return self._find(token).target

    def _find(self, token: str) -> _Link:
        link = self._links.get(_digest(token))
        if link is None:
            raise WrongCredentials(
                "This sign-in link is not known to this server.", advice="Run `halo up` for a new one."
            )
        return link

    def _forget(self) -> None:
        """Drop links an hour after their end, which tells a late click from a guess; and the oldest beyond a bound."""
        gone = self._clock.monotonic() - 3600
        self._links = {key: link for key, link in self._links.items() if link.until > gone}
        while len(self._links) >= _MAX_LINKS:
            del self._links[next(iter(self._links))]


@dataclass(kw_only=True)
class _Bucket:
    wrong: int
    last: float


class Attempts:
    """Counts wrong credentials by scheme and address: after five, they are locked out for 15 minutes from the last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    def check(self, scheme: str, address: str) -> None:
        """Raise `LockedOut` while this address is locked out of this scheme."""
        bucket = self._live(_key(scheme, address))
        if bucket is not None and bucket.wrong >= MAX_WRONG:
            rest = bucket.last + LOCK_SECONDS - self._clock.monotonic()
            raise LockedOut("Too many attempts with wrong credentials, try again later.", retry_after=rest)

    def wrong(self, scheme: str, address: str) -> None:
        """Count one wrong attempt."""
        key = _key(scheme, address)
        bucket = self._live(key)
        count = bucket.wrong + 1 if bucket else 1
        self._buckets.pop(key, None)
        self._buckets[key] = _Bucket(wrong=count, last=self._clock.monotonic())
        self._forget()

    def right(self, scheme: str, address: str) -> None:
        """Clear the count after right credentials."""
        self._buckets.pop(_key(scheme, address), None)

    def _live(self, key: tuple[str, str]) -> _Bucket | None:
        bucket = self._buckets.get(key)
        if bucket is None or self._clock.monotonic() >= bucket.last + LOCK_SECONDS:
            return None
        return bucket

    def _forget(self) -> None:
        """Drop what has expired, and the oldest beyond a bound; buckets are in the order of their last attempt."""
        gone = self._clock.monotonic() - LOCK_SECONDS
        for key in list(self._buckets):
            if len(self._buckets) <= _MAX_BUCKETS and self._buckets[key].last > gone:
                return
            del self._buckets[key]


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """All that the kernel's own scheme `operator` accepts, for one running server."""

    cookies: Cookies
    links: Links
    attempts: Attempts
    token: str = field(repr=False)

    def is_token(self, given: str) -> bool:
        """Tell whether `given` is this server's local token, in constant time."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def make_credentials(key: bytes, clock: Clock) -> Credentials:
    """Return credentials with a new local token; `key` signs the cookies and outlives the server."""
    return Credentials(
        cookies=Cookies(key, clock),
        links=Links(clock),
        attempts=Attempts(clock),
        token=secrets.token_urlsafe(32),
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _key(scheme: str, address: str) -> tuple[str, str]:
    """Return a bucket's key; one person has a whole /64 of IPv6 addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return scheme, address
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return scheme, str(ipaddress.ip_network((parsed, 64), strict=False))
    return scheme, str(getattr(parsed, "ipv4_mapped", None) or parsed)
