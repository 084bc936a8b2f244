"""The one way in for what channels receive: allowed, put into its session, durable, and only then acknowledged."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from .. import contracts
from ..contracts import Host, Tx
from ..errors import SessionClosed
from ..records import Account, Arrival, Incoming, Owed, Principal, Readiness, Receipt, WorkspaceInfo

_HELD_UP = "SELECT waiting FROM runs JOIN inbox USING (session) WHERE id = ? AND state = 'waiting'"  # by another turn
_WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))


@dataclass(kw_only=True)
class Door:
    """See `contracts.Door`."""

    account: Account
    host: Host
    since: float
    heard_at: float | None = None
    trouble: str = ""

    def heard(self) -> None:
        """See `contracts.Door.heard`."""
        self.heard_at, self.trouble = self.host.clock.monotonic(), ""

    def failed(self, why: str) -> None:
        """See `contracts.Door.failed`."""
        self.trouble = self.host.secrets.mask(why)

    def readiness(self, limit: float | None) -> Readiness:
        """Return whether the platform is heard, now and within `limit` seconds."""
        now = self.host.clock.monotonic()
        is_silent = limit is not None and now - (self.heard_at or self.since) > limit
        why = self.trouble or (f"the platform has said nothing for {limit:g} s" if is_silent else "")
        return Readiness(ready=not why, reason=why, silence=None if self.heard_at is None else now - self.heard_at)

    async def arrive(self, arrival: Arrival) -> Receipt | None:
        """See `contracts.Door.arrive`."""
        self.heard()
        account, name = self.account, f"{self.account.type}:{self.account.id}"
        workspace = await self.host.workspaces.open(account.workspace)
        route = ":".join([name, arrival.chat, *([arrival.thread] if arrival.thread else [])])
        if account.allowed and arrival.user not in account.allowed:
            await self._tell(workspace, route, "refused", f"refused:{name}:{arrival.user}", user=arrival.user)
            return None
        chat = f"{name}:{arrival.conversation or f'{arrival.chat}:{arrival.thread}'}"
        owner = Principal(name=chat, access=account.access, scheme=f"account:{account.type}")
        message = Incoming(
            text=arrival.text,
            key=f"{name}:{arrival.key}",
            mode=arrival.mode,
            principal=Principal(name=f"{name}:{arrival.user}", access=account.access, scheme=f"account:{account.type}"),
            route=route,
        )
        session = await self._session(workspace, owner, fresh=False)
        try:
            receipt = await session.submit(message)
        except SessionClosed:  # archived or deleted meanwhile: the conversation goes on in a new one
            session = await self._session(workspace, owner, fresh=True)
            receipt = await session.submit(message)
        database = (await self.host.workspaces.seat(workspace.id)).database
        if held := await database.read(lambda tx: tx.one(_HELD_UP, (receipt.row,))):
            await self._tell(workspace, route, "asked" if held[0] else "busy", f"hint:{name}:{receipt.row}")
        return receipt

    async def _tell(self, workspace: WorkspaceInfo, route: str, what: str, key: str, **about: str) -> None:
        text = _WORDS[self.account.language][what].format(**about)
        owed = Owed(key=key, dispatcher=self.account.type, target=route, text=text)
        await self.host.outbox.owe(owed, workspace=workspace.id)

    async def _session(self, workspace: WorkspaceInfo, owner: Principal, *, fresh: bool) -> contracts.Session:
        """Return the session of a conversation, a new one for the first message, or with `fresh`.

        Its id is stored before it is made, so that two messages at once, and a crash between, come to the same one.
        """
        chat, new = owner.name, f"{self.account.type}_{self.host.clock.new_id(64)}"

        def choose(tx: Tx) -> str:
            action = "UPDATE SET session = excluded.session" if fresh else "NOTHING"
            tx.execute(f"INSERT INTO chats(chat, session) VALUES (?, ?) ON CONFLICT(chat) DO {action}", (chat, new))
            row = tx.one("SELECT session FROM chats WHERE chat = ?", (chat,))
            return str(row[0]) if row else new

        session = await (await self.host.workspaces.seat(workspace.id)).database.write(choose)
        return await self.host.sessions.open(
            session, workspace=workspace.id, principal=owner, create=True, origin=self.account.type
        )
