"""What is not kept for ever: deleted sessions, and rows of the inbox and outbox that were settled long ago."""

from __future__ import annotations

import asyncio
from functools import partial

from ..contracts import Clock, Database, Tx

_HOUR_MS = 3_600_000
DELETED_MS = 24 * _HOUR_MS
SETTLED_MS = 30 * 24 * _HOUR_MS
KEPT_KEYS = 5_000  # of each sender, however old
_OPEN = "SELECT delivery FROM parts WHERE state IN ('pending', 'sending')"
_TABLES = ("events", "partials", "snapshots", "plugin_state", "questions", "runs", "outbox")


async def watch_retention(database: Database, clock: Clock) -> None:
    """Take out every hour what is kept no longer, for as long as this runs."""
    while True:
        if await database.write(partial(bury, now=clock.now())):
            await database.scrub()
        await database.write(partial(forget_settled, now=clock.now()))
        await asyncio.sleep(_HOUR_MS / 1000)


def bury(tx: Tx, *, now: int) -> list[str]:
    """Take all that sessions said out of the database a day after they were deleted, and return which.

    Their ids and the keys of their messages stay, so that neither comes back; what they still owe is sent first.
    """
    which = "deleted_at < ? AND journal <> ''"
    owing = f"SELECT 1 FROM outbox WHERE session = sessions.id AND id IN ({_OPEN})"
    found = tx.execute(f"SELECT id FROM sessions WHERE {which} AND NOT EXISTS ({owing})", (now - DELETED_MS,))
    names = [str(name) for (name,) in list(found)]
    for name in names:
        tx.execute("DELETE FROM parts WHERE delivery IN (SELECT id FROM outbox WHERE session = ?)", (name,))
        for table in _TABLES:
            tx.execute(f"DELETE FROM {table} WHERE session = ?", (name,))
        tx.execute("UPDATE inbox SET text = '' WHERE session = ?", (name,))
        tx.execute("UPDATE sessions SET title = '', journal = '', head = 0 WHERE id = ?", (name,))
    return names


def forget_settled(tx: Tx, *, now: int) -> None:
    """Forget messages and deliveries that were settled 30 days ago, but for the last 5,000 messages of each sender."""
    ranked = "SELECT id, row_number() OVER (PARTITION BY principal, principal_kind ORDER BY id DESC) AS age FROM inbox"
    idle = "state NOT IN ('waiting', 'held') AND owed = 0 AND session NOT IN (SELECT session FROM runs)"
    old = f"at < ? AND {idle} AND id IN (SELECT id FROM ({ranked}) AS ranked WHERE age > ?)"
    tx.execute(f"DELETE FROM inbox WHERE {old}", (now - SETTLED_MS, KEPT_KEYS))
    done = f"at < ? AND id NOT IN ({_OPEN})"
    tx.execute(f"DELETE FROM parts WHERE delivery IN (SELECT id FROM outbox WHERE {done})", (now - SETTLED_MS,))
    tx.execute(f"DELETE FROM outbox WHERE {done}", (now - SETTLED_MS,))
