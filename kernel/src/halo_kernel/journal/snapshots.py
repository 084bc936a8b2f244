"""What the folds of a long journal came to, kept beside it so that it is read from there on: never truth."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from ..contracts import Database, Tx
from ..folds import VERSION, History, View
from ..tables import insert
from .store import journal_of, read

F = TypeVar("F", bound=History | View)
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

    def write(tx: Tx) -> int:
        _, head = journal_of(tx, session)
        sizes: list[int] = []
        for fold in (History, View):
            state = msgspec.json.encode(folded(tx, session, fold)[0]).decode()
            tx.execute("DELETE FROM snapshots WHERE session = ? AND fold = ?", (session, fold.__name__))
            values = {"session": session, "fold": fold.__name__, "version": VERSION, "seq": head, "state": state}
            insert(tx, "snapshots", values)
            sizes.append(len(state))
        return head + max(EVERY, max(sizes) // _BYTES)

    return await database.write(write)
