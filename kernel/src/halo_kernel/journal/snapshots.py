"""What the folds of a long journal came to, kept beside it so that it is read from there on: never truth."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from ..contracts import Database, Tx
from ..folds import VERSION, History, View
from .store import read

F = TypeVar("F", History, View)
EVERY = 256
_BYTES = 4096


def folded(tx: Tx, session: str, fold: type[F]) -> tuple[F, int]:
    """Return a fold of the whole journal, made from what was kept of it and what came since, and its last event."""
    state, seq = fold(), 0
    where = (session, fold.__name__, VERSION)
    row = tx.one("SELECT state, seq FROM snapshots WHERE session = ? AND fold = ? AND version = ?", where)
    if row is not None:
        with suppress(msgspec.MsgspecError):
            state, seq = msgspec.json.decode(row[0], type=fold), row[1]
    for event in read(tx, session, after=seq):
        state.apply(event)
        seq = event.seq
    return state, seq


async def keep_folds(database: Database, session: str) -> int:
    """Keep what the folds come to if it is time, and return the number of the event at which it is time again.

    That is after `EVERY` events, or more where the state is large: an event costs at most 4 kB of it being rewritten.
    """
    taken = await database.read(lambda tx: _taken(tx, session))
    return await database.write(lambda tx: _kept(tx, session, taken))


def _taken(tx: Tx, session: str) -> list[tuple[str, int, str]]:
    head = tx.one("SELECT head FROM sessions WHERE id = ?", (session,))
    if head is None or head[0] < _due(tx, session):
        return []
    folds = [folded(tx, session, History), folded(tx, session, View)]
    return [(type(state).__name__, seq, msgspec.json.encode(state).decode()) for state, seq in folds]


def _kept(tx: Tx, session: str, taken: list[tuple[str, int, str]]) -> int:
    for fold, seq, state in taken:
        tx.execute(
            "INSERT INTO snapshots(session, fold, version, seq, state) SELECT ?, ?, ?, ?, ? WHERE NOT EXISTS"
            # what was erased since it was read must not come back
            " (SELECT 1 FROM events WHERE session = ? AND seq > ? AND kind = 'context.erased') ON CONFLICT(session,"
            " fold) DO UPDATE SET version = excluded.version, seq = excluded.seq, state = excluded.state",
            (session, fold, VERSION, seq, state, session, seq),
        )
    return _due(tx, session)


def _due(tx: Tx, session: str) -> int:
    row = tx.one(
        "SELECT coalesce(min(seq), 0), coalesce(max(length(state)), 0) FROM snapshots"
        " WHERE session = ? AND version = ?",
        (session, VERSION),
    )
    return 0 if row is None else int(row[0] + max(EVERY, row[1] // _BYTES))
