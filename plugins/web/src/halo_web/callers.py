"""Who calls with a token: the account behind it, and the workspace and session that a request is about."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from dataclasses import dataclass, field

from msgspec.structs import replace

from halo_kernel import (
    Account,
    Exchange,
    Forbidden,
    Host,
    NotFound,
    Principal,
    Session,
    WorkspaceInfo,
    WrongCredentials,
)

from .channel import CHANNEL

_NEWEST = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever has the account's token, as one person, in one workspace."""

    account: Account
    person: Principal
    workspace: WorkspaceInfo


def wish_of(exchange: Exchange, name: str, header: str, said: str | None = None) -> str | None:
    """Return what a request asks for: its body goes before its address, that before its headers."""
    return said or exchange.query.get(name) or exchange.raw.headers.get(header) or None


@dataclass(frozen=True)
class Callers:
    """Finds the caller of a request, and the caller's sessions."""

    host: Host
    _choosing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, exchange: Exchange, workspace: str | None = None) -> Caller:
        """Return who calls, in the workspace that the request names or the account's own.

        Raises `Forbidden` when it names another one and the account is not `full`, `NotFound`, `WorkspaceUnusable`.
        """
        name = exchange.principal.name
        found = [each for each in await self.host.accounts.list(CHANNEL) if f"{CHANNEL}:{each.id}" == name]
        if not found:
            raise WrongCredentials("this is no token of an enabled web account")
        (account,) = found
        place = await self._workspace(account, wish_of(exchange, "workspace", "x-workspace", workspace))
        self.host.accounts.door(account).heard()
        return Caller(account=account, person=replace(exchange.principal, kind="person"), workspace=place)

    async def _workspace(self, account: Account, wanted: str | None) -> WorkspaceInfo:
        own = await self.host.workspaces.open(account.workspace)
        if wanted is None or wanted in (own.id, own.path, account.workspace):
            return own
        if account.access != "full":
            raise Forbidden("workspace override requires a full-access token")
        if os.path.isabs(wanted):
            return await self.host.workspaces.open(wanted)
        return await self.host.workspaces.get(wanted)

    async def open(self, caller: Caller, session: str) -> Session:
        """Return a session of the caller's own. Raises `NotFound`, `BadInput` for what is no id."""
        return await self.host.sessions.open(session, workspace=caller.workspace.id, principal=caller.person)

    async def current(self, caller: Caller, wanted: str | None, *, agent: str | None = None) -> Session | None:
        """Return the session that a request names, else the caller's newest that is not archived, or None.

        With `agent` the newest of that agent.
        """
        if wanted is not None:
            return await self.open(caller, wanted)
        rows = await self.host.sessions.list(workspace=caller.workspace.id, principal=caller.person, limit=_NEWEST)
        open_ones = (row.id for row in rows if not row.archived and agent in (None, row.agent))
        newest = next(open_ones, None)
        return None if newest is None else await self.open(caller, newest)

    async def choose(self, caller: Caller, wanted: str | None, *, agent: str | None, key: str | None) -> Session:
        """Return the session for a message: as `current`, or a new one, the same for every repeat of `key`.

        One message at a time, so that two first ones come to one session.
        """
        async with self._choosing:
            found = await self.current(caller, wanted, agent=agent)
            return found or await self.create(caller, agent=agent, key=key)

    async def create(self, caller: Caller, *, agent: str | None, key: str | None = None) -> Session:
        """Make a session of the caller's. Raises `NotFound` for an unknown agent."""
        tail = f"{self.host.clock.now():x}{self.host.clock.new_id(64)[:8]}"
        if key is not None:
            known = "\n".join((caller.workspace.id, caller.account.id, key))
            tail = hashlib.sha256(known.encode("utf-8", "replace")).hexdigest()[:24]
        session = f"{CHANNEL}_{_UNSAFE.sub('-', caller.account.id)}_{tail}"
        try:
            return await self.host.sessions.open(
                session, workspace=caller.workspace.id, principal=caller.person, agent=agent, create=True
            )
        except NotFound as error:
            raise NotFound(error.message, advice=error.advice or "name an agent of the workspace in agentId") from error
