"""Groups that became supergroups: Telegram gives them another number, and they stay the same conversation."""

from __future__ import annotations

from halo_kernel import Database, Host, Migration, Tx

_ROWS = [
    Migration(
        version=1,
        sql="CREATE TABLE moves(account TEXT NOT NULL, old INTEGER NOT NULL, new INTEGER NOT NULL,"
        " PRIMARY KEY(account, old)) WITHOUT ROWID; CREATE INDEX moves_new ON moves(account, new);",
    )
]


class Moves:
    """Which chat became which, for each account."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def _rows(self) -> Database:
        return await self._host.data.open("telegram", "global", _ROWS)

    async def note(self, account: str, old: int, new: int) -> None:
        """Keep that a chat has another number now; one that led in a circle is not kept."""
        if old == await self.now(account, new):
            return
        sql = "INSERT INTO moves VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET new = excluded.new"
        await (await self._rows()).write(lambda tx: list(tx.execute(sql, (account, old, new))))

    async def now(self, account: str, chat: int) -> int:
        """Return the number that a chat has now."""
        return await self._last(account, chat, "SELECT new FROM moves WHERE account = ? AND old = ?")

    async def first(self, account: str, chat: int) -> int:
        """Return the number that a chat had first, which names its conversation."""
        return await self._last(account, chat, "SELECT old FROM moves WHERE account = ? AND new = ? ORDER BY old")

    async def _last(self, account: str, chat: int, sql: str) -> int:
        def follow(tx: Tx) -> int:
            found = chat
            while row := tx.one(sql, (account, found)):
                found = int(row[0])
            return found

        return await (await self._rows()).read(follow)
