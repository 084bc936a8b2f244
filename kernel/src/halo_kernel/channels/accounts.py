"""The accounts of a home: who speaks for which workspace, at which level, with which token."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ..contracts import Channel, Clock, Database, Row
from ..errors import BadInput, NotFound, WrongCredentials
from ..records import Account, Principal
from ..supervisor import Supervisor, end_task
from .door import Door, Lobby

_FIELDS = Account.__struct_fields__
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM accounts"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,79}")


@dataclass(kw_only=True)
class Accounts:
    """See `contracts.Accounts`. Channels run while `supervisor` keeps them, once `start` was called."""

    database: Database
    clock: Clock
    lobby: Lobby
    supervisor: Supervisor
    channels: Mapping[str, Channel] = field(default_factory=dict[str, Channel])
    _doors: dict[tuple[str, str], Door] = field(default_factory=dict[tuple[str, str], Door])
    _running: dict[tuple[str, str], asyncio.Task[None]] = field(
        default_factory=dict[tuple[str, str], "asyncio.Task[None]"]
    )
    _started: bool = False

    async def list(self, type: str | None = None) -> Sequence[Account]:
        """See `contracts.Accounts.list`."""
        sql = f"{_SELECT} WHERE type = coalesce(?, type) ORDER BY type, id"
        return await self.database.read(lambda tx: [_account(row) for row in tx.execute(sql, (type,))])

    async def put(self, account: Account) -> None:
        """See `contracts.Accounts.put`."""
        for name in ("type", "id"):
            if not _NAME.fullmatch(getattr(account, name)):
                raise BadInput(f"{name} has 1 to 80 of a-z, 0-9, '_', '.', '@' and '-'", field=name)
        await self.lobby.open_workspace(account.workspace)
        values = msgspec.to_builtins(account)
        values |= {name: msgspec.json.encode(values[name]).decode() for name in ("allowed", "config")}
        args = (*values.values(), self.clock.now())
        names = (*_FIELDS, "updated_at")
        sets = ", ".join(f"{name} = excluded.{name}" for name in names[2:])
        sql = (
            f"INSERT INTO accounts({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            f" ON CONFLICT(type, id) DO UPDATE SET {sets}"
        )
        await self.database.write(lambda tx: tx.one(sql, args))
        await self._restart(account)

    async def remove(self, type: str, id: str) -> None:
        """See `contracts.Accounts.remove`."""
        account = await self._get(type, id)
        await self.database.write(lambda tx: tx.one("DELETE FROM accounts WHERE type = ? AND id = ?", (type, id)))
        await self._restart(msgspec.structs.replace(account, enabled=False))

    async def issue_token(self, type: str, id: str) -> str:
        """See `contracts.Accounts.issue_token`."""
        await self._get(type, id)
        token, sql = secrets.token_urlsafe(24), "UPDATE accounts SET token = ? WHERE type = ? AND id = ?"
        await self.database.write(lambda tx: tx.one(sql, (_hash(token), type, id)))
        return token

    async def silence(self, type: str, id: str) -> float | None:
        """See `contracts.Accounts.silence`."""
        door = self._doors.get((type, id))
        return None if door is None or door.heard_at is None else self.clock.monotonic() - door.heard_at

    def door(self, account: Account) -> Door:
        """See `contracts.Accounts.door`."""
        found = self._doors.get((account.type, account.id))
        if found is None or found.account != account:
            found = self._doors[account.type, account.id] = Door(account=account, lobby=self.lobby, clock=self.clock)
        return found

    async def authenticate(self, type: str, token: str) -> Principal:
        """Return the account of a token as a principal named `<type>:<id>`. Raises `WrongCredentials`."""
        sql, args = f"{_SELECT} WHERE type = ? AND token = ? AND enabled = 1", (type, _hash(token))
        account = await self.database.read(lambda tx: [_account(row) for row in tx.execute(sql, args)])
        if not account:
            raise WrongCredentials(f"this is no token of an enabled {type} account")
        name = f"{type}:{account[0].id}"
        return Principal(name=name, kind="remote", access=account[0].access, scheme=f"account:{type}")

    async def start(self) -> None:
        """Run the channel of every enabled account, from now on as it changes."""
        self._started = True
        for account in await self.list():
            await self._restart(account)

    async def _restart(self, account: Account) -> None:
        key = account.type, account.id
        if (task := self._running.pop(key, None)) is not None:
            await end_task(task, name=":".join(key), within=5.0)
        self._doors.pop(key, None)
        channel = self.channels.get(account.type)
        if channel is not None and account.enabled and self._started:
            door = self.door(account)
            self._running[key] = self.supervisor.keep(":".join(key), lambda: channel.run(account, door))

    async def _get(self, type: str, id: str) -> Account:
        found = await self.database.read(lambda tx: tx.one(f"{_SELECT} WHERE type = ? AND id = ?", (type, id)))
        if found is None:
            raise NotFound(f"there is no {type} account {id}")
        return _account(found)


def _account(row: Row) -> Account:
    values = dict(zip(_FIELDS, row, strict=True))
    lists = {name: msgspec.json.decode(values[name]) for name in ("allowed", "config")}
    return msgspec.convert({**values, **lists}, Account, strict=False)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
