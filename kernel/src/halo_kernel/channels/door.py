"""The one way in for what channels receive: allowed, put into its session, durable, and only then acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from .. import contracts
from ..contracts import Host, Tx
from ..errors import SessionClosed
from ..records import Account, Arrival, Incoming, Owed, Principal, Receipt, WorkspaceInfo

_REFUSAL = {
    "en": "You are not allowed to write to this agent. Ask its operator to add you: {user}",
    "zh": "您没有权限与该助手对话。请联系管理员添加您的账号：{user}",
}


@dataclass(kw_only=True)
class Door:
    """See `contracts.Door`."""

    account: Account
    host: Host
    heard_at: float | None = None

    def heard(self) -> None:
        """See `contracts.Door.heard`."""
        self.heard_at = self.host.clock.monotonic()

    async def arrive(self, arrival: Arrival) -> Receipt | None:
        """See `contracts.Door.arrive`."""
        self.heard()
        account, name = self.account, f"{self.account.type}:{self.account.id}"
        workspace = await self.host.workspaces.open(account.workspace)
        route = ":".join([name, arrival.chat, *([arrival.thread] if arrival.thread else [])])
        if account.allowed and arrival.user not in account.allowed:
            text = _REFUSAL[account.language].format(user=arrival.user)
            owed = Owed(key=f"refused:{name}:{arrival.user}", dispatcher=account.type, target=route, text=text)
            await self.host.outbox.owe(owed, workspace=workspace.id)
            return None
        message = Incoming(
            text=arrival.text,
            key=f"{name}:{arrival.key}",
            mode=arrival.mode,
            principal=Principal(name=f"{name}:{arrival.user}", access=account.access, scheme=f"account:{account.type}"),
            route=route,
        )
        chat = arrival.conversation or f"{arrival.chat}:{arrival.thread}"
        session = await self._session(workspace, f"{name}:{chat}", fresh=False)
        try:
            return await session.submit(message)
        except SessionClosed:  # archived or deleted meanwhile: the conversation goes on in a new one
            session = await self._session(workspace, f"{name}:{chat}", fresh=True)
            return await session.submit(message)

    async def _session(self, workspace: WorkspaceInfo, chat: str, *, fresh: bool) -> contracts.Session:
        """Return the session of a conversation, a new one for the first message, or with `fresh`.

        Its id is stored before it is made, so that two messages at once, and a crash between, come to the same one.
        """
        new = f"{self.account.type}_{self.host.clock.new_id(64)}"

        def choose(tx: Tx) -> str:
            action = "UPDATE SET session = excluded.session" if fresh else "NOTHING"
            tx.execute(f"INSERT INTO chats(chat, session) VALUES (?, ?) ON CONFLICT(chat) DO {action}", (chat, new))
            row = tx.one("SELECT session FROM chats WHERE chat = ?", (chat,))
            return str(row[0]) if row else new

        session = await (await self.host.workspaces.seat(workspace.id)).database.write(choose)
        owner = Principal(name=chat, access=self.account.access, scheme=f"account:{self.account.type}")
        return await self.host.sessions.open(
            session, workspace=workspace.id, principal=owner, create=True, origin=self.account.type
        )
