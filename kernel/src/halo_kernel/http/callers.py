"""Who makes a request: the caller's address, and the principal that the route's one scheme vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..credentials import COOKIE, COOKIE_REFRESH
from ..errors import Unauthorized, WrongCredentials
from ..hookspecs import authenticate
from ..records import OPERATOR, Principal

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from ..credentials import Credentials
    from ..hooks import Hooks
    from ..records import Route

PUBLIC = Principal(name="anyone", kind="remote", access="readonly", scheme="public")
SIGNED = Principal(name="signed", kind="remote", access="readonly", scheme="signed")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks: `renew` says that the cookie is old enough for a new one."""

    principal: Principal
    renew: bool = False


def address_of(connection: HTTPConnection, *, trust_proxy: bool) -> str:
    """Return the caller's address: the socket's, or behind a trusted proxy the first that it forwards."""
    forwarded = connection.headers.get("x-forwarded-for", "").split(",")[0].strip() if trust_proxy else ""
    return forwarded or (connection.client.host if connection.client else "unknown")


@dataclass(frozen=True, kw_only=True)
class Callers:
    """Finds the principal of a request; only the route's own scheme is asked."""

    credentials: Credentials
    hooks: Hooks

    async def find(self, connection: HTTPConnection, route: Route, address: str) -> Caller:
        """Return the caller. Raises `Unauthorized`, `WrongCredentials` (counted here) or `LockedOut`."""
        if route.auth == "public":
            return Caller(principal=PUBLIC)
        if route.auth == "signed":
            return Caller(principal=SIGNED)
        if not route.optional:
            return await self._vouched(connection, route.auth, address)
        try:
            return await self._vouched(connection, route.auth, address)
        except Unauthorized:
            return Caller(principal=PUBLIC)

    async def _vouched(self, connection: HTTPConnection, scheme: str, address: str) -> Caller:
        self.credentials.attempts.check(scheme, address)
        try:
            caller = self._operator(connection) if scheme == "operator" else await self._other(connection, scheme)
        except WrongCredentials:
            self.credentials.attempts.wrong(scheme, address)
            raise
        # While a plugin looked, others may have been guessing.
        self.credentials.attempts.check(scheme, address)
        return caller

    def _operator(self, connection: HTTPConnection) -> Caller:
        """Return the caller of the kernel's own scheme.

        A cookie that does not fit counts as none: browsers send one server's cookies to every port of its host.
        """
        token = _token(connection)
        if token is not None:
            if not self.credentials.is_token(token):
                raise WrongCredentials("The token is wrong.", advice="Read it from this home's server file again.")
            return Caller(principal=OPERATOR)
        cookie = self.credentials.cookies.read(connection.cookies.get(COOKIE, ""))
        if cookie is None or cookie.principal.scheme != "operator":
            raise Unauthorized("Sign in first.", advice="Open the link of `halo up`, or sign in with a password.")
        return Caller(principal=cookie.principal, renew=cookie.age > COOKIE_REFRESH)

    async def _other(self, connection: HTTPConnection, scheme: str) -> Caller:
        principal = await self.hooks.first(authenticate, request=connection, scheme=scheme)
        if principal is None or principal.scheme != scheme:
            raise Unauthorized(f"This needs credentials of the scheme {scheme!r}.")
        return Caller(principal=principal)


def _token(connection: HTTPConnection) -> str | None:
    """Return the token a request carries in `Authorization: Bearer` or `x-token`, if any."""
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return connection.headers.get("x-token") or None
