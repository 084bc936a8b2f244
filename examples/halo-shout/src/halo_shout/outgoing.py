"""The dispatcher: what is owed to a name waits in rows of our own until a client of that name is there."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Database, DeliveryFailed, Guarantee, Host, Migration, Part, Tx

from .lines import split

KEPT = 30 * 24 * 3600 * 1000
"""Milliseconds for which the key of a part that went out is known."""
TABLES = [
    Migration(
        version=1,
        sql="""
        CREATE TABLE owed(
            seq INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, account TEXT NOT NULL, name TEXT NOT NULL,
            text TEXT NOT NULL, at INTEGER NOT NULL, sent INTEGER NOT NULL DEFAULT 0
        );
        CREATE INDEX owed_unsent ON owed(account, name, seq) WHERE sent = 0;
        """,
    )
]


async def database(host: Host) -> Database:
    """Return the database of what is owed."""
    return await host.data.open("shout", "global", TABLES)


def topic(account: str) -> str:
    """Return the topic of the bell that rings when somebody of an account is owed something."""
    return f"shout:{account}"


class Outgoing:
    """Writes each part down, once; the channel sends it when somebody of that name is connected."""

    kind = "shout"
    guarantee: Guarantee = "local"

    def __init__(self, host: Host) -> None:
        self._host = host

    def split(self, text: str) -> Sequence[str]:
        """Cut into what the protocol takes as one message."""
        return split(text)

    async def deliver(self, part: Part) -> str:
        """Write a part down for the name that its target, `shout:<account>:<name>`, ends with."""
        _, account, name = (*part.target.split(":"), "", "")[:3]
        if not name or not any(each.id == account for each in await self._host.accounts.list(self.kind)):
            raise DeliveryFailed(f"there is no {part.target}", permanent=True)

        def owe(tx: Tx) -> None:
            tx.execute("DELETE FROM owed WHERE sent = 1 AND at < ?", (part.at - KEPT,))
            tx.execute(
                "INSERT INTO owed(key, account, name, text, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT(key) DO NOTHING",
                (part.key, account, name, part.text, part.at),
            )

        rows = await database(self._host)
        await rows.write(owe)
        rows.notify(topic(account))
        return part.key

    async def find(self, part: Part) -> str | None:
        """Nobody asks: a part that is `local` is delivered again, and its key keeps it single."""
        return None
