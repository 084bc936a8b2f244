"""To whom a root session reports: the one pointer of its row, who may take it from whom, and when it is paid."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..contracts import Tx
from ..errors import BadInput, Conflict
from ..journal import last_answer, last_outcome
from ..records import Claim, Owed, Pointer, Settlement
from .debts import owe


class _Held(Pointer, frozen=True, kw_only=True):
    """A pointer with the inbox row that set it."""

    row: int


# How a turn's end counts for those who wait for its answer elsewhere.
REASONS: Mapping[str, Settlement] = {
    "succeeded": "answered",
    "failed": "aborted",
    "interrupted": "aborted",
    "cancelled": "cancelled",
}
_decoder = msgspec.json.Decoder(_Held)


def may_take(new: Claim, held: Claim) -> bool:
    """Tell whether a claimant takes the pointer of another; else it is refused.

    A report (of a relay or a task) takes any. A job takes those of jobs and runs. A run, which nobody waits for, takes
    none.
    """
    return new == "report" or (new == "job" and held != "report")


def take_pointer(tx: Tx, session: str, pointer: Pointer, *, row: int, at: int) -> None:
    """Make `pointer` the one that the session reports to, for its inbox row `row`.

    Who had it before is told that it was superseded. Raises `Conflict` when the holder does not give way, `BadInput`
    for a session below another: that one reports to its parent.
    """
    found = tx.one("SELECT reply_to, parent FROM sessions WHERE id = ?", (session,))
    if found is None or found[1] is not None:
        raise BadInput(f"{session} reports to its parent, and to nobody else", field="reply_to")
    held = _decoder.decode(found[0]) if found[0] else None
    if held is not None:
        if not may_take(pointer.claim, held.claim):
            raise Conflict(f"session {session} already works for {held.dispatcher}:{held.target}")
        by = f"superseded by {pointer.dispatcher}:{pointer.target}"
        _pay(tx, session, held, text=by, reason="superseded", at=at)
    mine = _Held(dispatcher=pointer.dispatcher, target=pointer.target, claim=pointer.claim, row=row)
    tx.execute("UPDATE sessions SET reply_to = ? WHERE id = ?", (msgspec.json.encode(mine).decode(), session))


def settle(tx: Tx, root: str, *, at: int, reason: Settlement | None = None) -> None:
    """Report the last answer of a root, once its whole tree is quiescent, and clear its pointer.

    Called in every transaction that can make a tree quiescent. `reason` is said instead of how the last turn ended.
    """
    found = tx.one("SELECT reply_to FROM sessions WHERE id = ? AND reply_to <> ''", (root,))
    if found is None or not quiescent(tx, root):
        return
    why = REASONS.get(last_outcome(tx, root), "aborted")
    text = last_answer(tx, root) or "(no output)"
    _pay(tx, root, _decoder.decode(found[0]), text=text, reason=reason or why, at=at)
    tx.execute("UPDATE sessions SET reply_to = '' WHERE id = ?", (root,))


def quiescent(tx: Tx, root: str) -> bool:
    """Tell whether nothing in a tree runs, waits for a person, or would start a run."""
    busy = tx.one(
        "SELECT 1 FROM runs WHERE root = ? UNION ALL SELECT 1 FROM inbox JOIN sessions ON sessions.id = inbox.session"
        " WHERE sessions.root = ? AND inbox.state = 'waiting' AND NOT EXISTS"
        " (SELECT 1 FROM sessions WHERE id = ? AND parked = 1) LIMIT 1",
        (root, root, root),
    )
    return busy is None


def _pay(tx: Tx, session: str, held: _Held, *, text: str, reason: Settlement, at: int) -> None:
    report = Owed(
        key=f"report:{held.row}",
        dispatcher=held.dispatcher,
        target=held.target,
        text=text,
        debt="report",
        reason=reason,
        session=session,
    )
    owe(tx, report, at=at)
