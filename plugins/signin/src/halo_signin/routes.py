"""Signing in, asking whether one is, signing out, and changing the password."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from halo_kernel import OPERATOR, BadInput, Conflict, Exchange, Reply, Route, ServerSettings, WrongCredentials
from halo_lib_settings import write_settings

from .hashing import hash_password, matches, weakness
from .settings import SignInSettings

if TYPE_CHECKING:
    from halo_kernel import Host

KEY = "server.password"
BUCKET = "password"


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The password."""

    password: str


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The password so far, empty when there is none, and the new one."""

    new_password: str
    old_password: str = ""


class Done(Struct, frozen=True, kw_only=True):
    """It is done."""

    ok: bool = True


class Check(Struct, frozen=True, kw_only=True):
    """Whether the caller is signed in, the server's badge, and whether there is a password to sign in with."""

    authenticated: bool
    badge: str
    password: bool


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """Answers the routes. The settings file is read again each time: `halo password` may have changed it."""

    host: Host

    @property
    def routes(self) -> Sequence[Route]:
        """The routes under `/api/auth`."""
        return [
            Route(
                method="POST",
                path="/api/auth/login",
                handler=self.log_in,
                summary="Sign in with the password",
                request=Login,
                reply=Done,
                auth="public",
                attempts=BUCKET,
            ),
            Route(
                method="GET",
                path="/api/auth/check",
                handler=self.check,
                summary="Tell whether the caller is signed in",
                reply=Check,
                optional=True,
            ),
            Route(
                method="POST",
                path="/api/auth/logout",
                handler=self.log_out,
                summary="Sign this browser out",
                reply=Done,
                auth="public",
            ),
            Route(
                method="POST",
                path="/api/auth/change-password",
                handler=self.change,
                summary="Change the password",
                request=Change,
                reply=Done,
                attempts=BUCKET,
            ),
        ]

    async def log_in(self, exchange: Exchange) -> Reply:
        """Sign the browser in."""
        stored = await self._stored()
        if stored is None:
            raise Conflict(
                "No password is set, so nobody can sign in with one.",
                advice="Set one with `halo password`, or open the link that `halo up` prints.",
            )
        await self._compare(stored, cast("Login", exchange.body).password)
        return Reply(body=Done(), signed_in=OPERATOR)

    async def check(self, exchange: Exchange) -> Reply:
        """Tell who is signed in; 401 for nobody."""
        signed_in = exchange.principal.scheme == "operator"
        badge = self.host.settings.of(SignInSettings).badge
        answer = Check(authenticated=signed_in, badge=badge, password=await self._stored() is not None)
        return Reply(body=answer, status=200 if signed_in else 401)

    async def log_out(self, exchange: Exchange) -> Reply:
        """End this browser's cookie; other browsers stay signed in."""
        return Reply(body=Done(), signed_out=True)

    async def change(self, exchange: Exchange) -> Done:
        """Store a new password; whoever is signed in stays so."""
        wanted = cast("Change", exchange.body)
        stored = await self._stored()
        self._refuse_managed()
        if stored is not None:
            await self._compare(stored, wanted.old_password)
        if lack := weakness(wanted.new_password):
            raise BadInput(lack, field="newPassword")
        if stored is not None and wanted.new_password == wanted.old_password:
            raise BadInput("The new password is the old one.", field="newPassword")
        await asyncio.to_thread(lambda: write_settings(self.host.settings, {KEY: hash_password(wanted.new_password)}))
        return Done()

    async def _stored(self) -> str | None:
        secret = (await asyncio.to_thread(self.host.settings.of, ServerSettings)).password
        return None if secret is None else secret.reveal()

    async def _compare(self, stored: str, given: str) -> None:
        if not given or not await asyncio.to_thread(matches, stored, given):
            raise WrongCredentials("Invalid password")

    def _refuse_managed(self) -> None:
        source = self.host.settings.at().fields[KEY].source
        if source.startswith("environment"):
            raise BadInput(f"The password comes from the {source} and is changed there.", field="newPassword")
