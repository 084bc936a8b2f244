"""What the folds of a long journal came to, kept beside it so that it is read from there on: never truth."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from ..contracts import Database, Tx
from ..folds import VERSION, History, View
from .store import journal_of, read

F = TypeVar("F", History, View)
EVERY = 256
_BYTES = 4096


def folded(tx: Tx, session: str, fold: type[F]) -> tuple[F, int]:
    """Return a fold of the whole journal, from what was kept of it and what came since, and when to keep it again.

    That is the number of an event: after `EVERY` more, or more than that where the state is large, so that an event
    costs at most 4 kB of it being rewritten.
    """
    state, seq, size = fold(), 0, 0
    where = (session, fold.__name__, VERSION)
    row = tx.one("SELECT state, seq FROM snapshots WHERE session = ? AND fold = ? AND version = ?", where)
    if row is not None:
        with suppress(msgspec.MsgspecError):
            state, seq, size = msgspec.json.decode(row[0], type=fold), row[1], len(row[0])
    for event in read(tx, session, after=seq):
        state.apply(event)
    return state, seq + max(EVERY, size // _BYTES)


async def keep_folds(database: Database, session: str) -> int:
    """Keep what the folds of a journal come to now, and return when to do so again, as `folded` does."""

    def look(tx: Tx) -> tuple[int, dict[str, str]]:
        states: list[object] = [folded(tx, session, History)[0], folded(tx, session, View)[0]]
        _, head = journal_of(tx, session)
        return head, {type(state).__name__: msgspec.json.encode(state).decode() for state in states}

    head, states = await database.read(look)

    def write(tx: Tx) -> None:
        for fold, state in states.items():
            tx.execute(
                "INSERT INTO snapshots(session, fold, version, seq, state) SELECT ?, ?, ?, ?, ? WHERE NOT EXISTS"
                # what was erased since it was read must not come back
                " (SELECT 1 FROM events WHERE session = ? AND seq > ? AND kind = 'context.erased') ON CONFLICT(session,"
                " fold) DO UPDATE SET version = excluded.version, seq = excluded.seq, state = excluded.state",
                (session, fold, VERSION, head, state, session, head),
            )

    await database.write(write)
    return head + max(EVERY, max(map(len, states.values())) // _BYTES)
