"""A fork: a session with the history of another one, and with nothing that the other owes or waits for."""

from __future__ import annotations

from .. import records
from ..contracts import Tx
from ..journal import append
from ..recovery import loose_ends
from ..tables import insert
from .rows import NEW

_ENDED = records.TurnEnded(
    outcome="interrupted", error="the session was forked in the middle of this turn", kind="fork"
)
_COPIED = {"events": "seq, at, kind, turn, body", "plugin_state": "plugin, value"}


def fork(tx: Tx, source: records.SessionInfo, copy: records.SessionInfo, *, journal: str) -> tuple[records.Event, ...]:
    """Make `copy` a root with the history of `source` as it is now, whose open turn it ends; return what it adds."""
    values = {name: getattr(copy, name) for name in (*NEW, "model", "head")}
    insert(tx, "sessions", {**values, "marks": " ".join(copy.marks), "journal": journal})
    for table, columns in _COPIED.items():
        which = f"SELECT ?, {columns} FROM {table} WHERE session = ?"
        tx.execute(f"INSERT INTO {table}(session, {columns}) {which}", (copy.id, source.id))
    origin = records.SessionForked(source=source.id, head=source.head)
    return (*_end_turn(tx, source.id, copy), *append(tx, copy.id, [origin], at=copy.created_at))


def _end_turn(tx: Tx, source: str, copy: records.SessionInfo) -> tuple[records.Event, ...]:
    run = tx.one("SELECT turn FROM runs WHERE session = ?", (source,))
    if run is None:
        return ()
    turn = str(run[0])
    asked = tx.execute("SELECT id, call FROM questions WHERE session = ? AND state = 'pending'", (source,))
    settled = [records.QuestionSettled(question=number, call=call, state="denied", by="fork") for number, call in asked]
    left = loose_ends(tx, copy.id, turn, None, reason="fork")
    return append(tx, copy.id, [*settled, *left, _ENDED], at=copy.created_at, turn=turn)
