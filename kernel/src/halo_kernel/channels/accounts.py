"""The accounts of a home: who speaks for which workspace, at which level, with which token."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ..contracts import Channel, Database, Host, Tx
from ..errors import BadInput, NotFound, WrongCredentials
from ..records import Account, Principal, Readiness, Secret
from ..supervisor import Supervisor, end_task
from ..tables import insert
from .door import Door

_Key = tuple[str, str]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,79}")


@dataclass(kw_only=True)
class Accounts:
    """The accounts of this home, by channel type and id.

    Channels run while `supervisor` keeps them, once `start` was called.
    """

    database: Database
    supervisor: Supervisor
    host: Host = field(init=False)
    channels: Mapping[str, Channel] = field(default_factory=dict[str, Channel])
    _doors: dict[_Key, Door] = field(default_factory=dict[_Key, Door])
    _running: dict[_Key, asyncio.Task[None]] = field(default_factory=dict[_Key, "asyncio.Task[None]"])
    _started: bool = False

    async def list(self, type: str | None = None) -> Sequence[Account]:
        """Return accounts by type and id."""
        return await self.database.read(lambda tx: _found(tx, "type = coalesce(?, type)", type))

    async def put(self, account: Account, *, secrets: Mapping[str, str] | None = None) -> None:
        """Make or change an account; while the server runs, its channel starts anew with it.

        Its `secrets` stay as they are unless they are given. Raises `BadInput` naming the field, `WorkspaceUnusable`.
        """
        for name in ("type", "id"):
            if not _NAME.fullmatch(getattr(account, name)):
                raise BadInput(f"{name} has 1 to 80 of a-z, 0-9, '_', '.', '@' and '-'", field=name)
        await self.host.workspaces.open(account.workspace)
        values = {"type": account.type, "id": account.id, "account": msgspec.json.encode(account).decode()}
        if secrets is not None:
            values["secrets"] = msgspec.json.encode(secrets).decode()
        again = ", ".join(f"{name} = excluded.{name}" for name in values)
        await self.database.write(
            lambda tx: insert(tx, "accounts", values, more=f"ON CONFLICT(type, id) DO UPDATE SET {again}")
        )
        await self._restart(account)

    async def secrets(self, type: str, id: str) -> Mapping[str, Secret]:
        """Return the secrets of an account, by name; from then on they are masked everywhere. Raises `NotFound`."""
        await self._get(type, id)
        sql, name = "SELECT secrets FROM accounts WHERE type = ? AND id = ?", f"{type}:{id}"
        (raw,) = await self.database.read(lambda tx: tx.one(sql, (type, id))) or ("{}",)
        texts = msgspec.json.decode(raw, type=dict[str, str])
        found = {each: Secret(text, f"{name}:{each}") for each, text in texts.items()}
        self.host.settings.redactor.learn(name, found.values())
        return found

    async def remove(self, type: str, id: str) -> None:
        """Remove an account and its token. Raises `NotFound`."""
        account = await self._get(type, id)
        await self.database.write(lambda tx: tx.one("DELETE FROM accounts WHERE type = ? AND id = ?", (type, id)))
        await self._restart(msgspec.structs.replace(account, enabled=False))

    async def issue_token(self, type: str, id: str) -> str:
        """Return a new token for an account, in place of an older one; only its hash is kept. Raises `NotFound`."""
        await self._get(type, id)
        token, sql = secrets.token_urlsafe(24), "UPDATE accounts SET token = ? WHERE type = ? AND id = ?"
        await self.database.write(lambda tx: tx.one(sql, (_hash(token), type, id)))
        return token

    async def readiness(self, type: str, id: str) -> Readiness:
        """Return whether an account that this server runs hears its platform. Raises `NotFound`."""
        account, channel, door = await self._get(type, id), self.channels.get(type), self._doors.get((type, id))
        if not account.enabled:
            return Readiness(ready=False, reason="it is disabled")
        if channel is None or door is None:
            why = "it does not run here" if channel else f"no plugin brings the channel {type}"
            return Readiness(ready=False, reason=why)
        return door.readiness(channel.silence)

    def door(self, account: Account) -> Door:
        """Return where an account's messages come in, for a channel that is called rather than run."""
        found = self._doors.get((account.type, account.id))
        if found is None or found.account != account:
            found = Door(account=account, host=self.host, since=self.host.clock.monotonic())
            self._doors[account.type, account.id] = found
        return found

    async def authenticate(self, type: str, token: str) -> Principal:
        """Return the account of a token as a principal named `<type>:<id>`. Raises `WrongCredentials`."""
        found = await self.database.read(lambda tx: _found(tx, "type = ? AND token = ?", type, _hash(token)))
        if not found or not found[0].enabled:
            raise WrongCredentials(f"this is no token of an enabled {type} account")
        name = f"{type}:{found[0].id}"
        return Principal(name=name, kind="remote", access=found[0].access, scheme=f"account:{type}")

    async def start(self) -> None:
        """Run the channel of every enabled account, from now on as it changes."""
        self._started = True
        for account in await self.list():
            await self._restart(account)

    async def restart(self, types: Collection[str]) -> None:
        """Run the accounts of these types with the channels that there are now."""
        for account in await self.list():
            if account.type in types:
                await self._restart(account)

    async def _restart(self, account: Account) -> None:
        key = account.type, account.id
        if (task := self._running.pop(key, None)) is not None:
            await end_task(task, name=":".join(key), within=5.0)
        self._doors.pop(key, None)
        channel = self.channels.get(account.type)
        if channel is not None and account.enabled and self._started:
            door = self.door(account)
            self._running[key] = self.supervisor.keep(":".join(key), lambda: _run(channel, account, door))

    async def _get(self, type: str, id: str) -> Account:
        found = await self.database.read(lambda tx: _found(tx, "type = ? AND id = ?", type, id))
        if not found:
            raise NotFound(f"there is no {type} account {id}")
        return found[0]


async def _run(channel: Channel, account: Account, door: Door) -> None:
    try:
        await channel.run(account, door)
    except Exception as error:
        door.failed(str(error) or repr(error))
        raise


def _found(tx: Tx, where: str, *args: str | None) -> list[Account]:
    rows = tx.execute(f"SELECT account FROM accounts WHERE {where} ORDER BY type, id", args)
    return [msgspec.json.decode(raw, type=Account) for (raw,) in rows]


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
