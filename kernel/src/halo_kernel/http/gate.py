"""What every request passes before its handler: its address, the principal that vouches for it, its attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from starlette.requests import HTTPConnection

from ..credentials import COOKIE, COOKIE_REFRESH, Credentials
from ..errors import Unauthorized, WrongCredentials
from ..hookspecs import authenticate
from ..records import OPERATOR, Principal, Route
from ..runtime import Kernel
from ..settings import ServerSettings
from .origins import Origins

_OPEN = {each: Principal(name=each, kind="remote", access="readonly", scheme=each) for each in ("public", "signed")}


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Lets requests to `kernel` in; one for the whole application. `bound` is the host that it listens on."""

    kernel: Kernel
    credentials: Credentials
    bound: str
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary[str, asyncio.Lock])

    def origins(self) -> Origins:
        """Return the names and origins that are accepted now."""
        return Origins(bound=self.bound, server=self.kernel.settings.of(ServerSettings))

    async def caller(self, connection: HTTPConnection, route: Route, address: str) -> tuple[Principal, bool]:
        """Return who asks, and whether their cookie is to be renewed; only the route's own scheme is asked.

        Raises `Unauthorized`, `WrongCredentials` or `LockedOut`.
        """
        if route.auth in _OPEN:
            return _OPEN[route.auth], False
        if route.auth == "operator" and (known := self._operator(connection)) is not None:
            return known
        try:
            with self.credentials.attempts.judging(route.auth, address):
                return await self._vouched(connection, route.auth), False
        except Unauthorized:
            if route.optional:
                return _OPEN["public"], False
            raise

    @asynccontextmanager
    async def attempt(self, bucket: str, address: str) -> AsyncGenerator[None]:
        """Count what a handler that checks credentials raises.

        One address has one attempt at a time: a burst of guesses is refused without keeping the server busy.
        """
        async with self._turns.setdefault(address, asyncio.Lock()):
            with self.credentials.attempts.judging(bucket, address):
                yield

    def _operator(self, connection: HTTPConnection) -> tuple[Principal, bool] | None:
        """Return the caller of the kernel's own scheme, None without the right token or cookie.

        Nobody guesses these 256 bits, so others' guesses never keep their owner out.
        """
        if token := _token(connection):
            return (OPERATOR, False) if self.credentials.is_token(token) else None
        found = self.credentials.cookies.read(connection.cookies.get(COOKIE, ""))
        return (found[0], found[1] > COOKIE_REFRESH) if found and found[0].scheme == "operator" else None

    async def _vouched(self, connection: HTTPConnection, scheme: str) -> Principal:
        kind, _, channel = scheme.partition(":")
        token = _token(connection)
        if scheme == "operator" and token:
            raise WrongCredentials("The token is wrong.", advice="Read it from this home's server file again.")
        if scheme == "operator":  # a cookie that does not fit is none: browsers send it to every port of its host
            raise Unauthorized("Sign in first.", advice="Open the link of `halo up`, or sign in with a password.")
        if kind == "account" and (token := token or connection.query_params.get("token", "")):
            return await self.kernel.accounts.authenticate(channel, token)
        principal = await self.kernel.hooks.first(authenticate, request=connection, scheme=scheme)
        if principal is None or principal.scheme != scheme:
            raise Unauthorized(f"This needs credentials of the scheme {scheme!r}.")
        return principal


def _token(connection: HTTPConnection) -> str:
    """Return the token a request carries in `Authorization: Bearer` or `x-token`, if any."""
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    return (value.strip() if scheme.lower() == "bearer" else "") or connection.headers.get("x-token", "")
