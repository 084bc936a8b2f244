"""To whom a root session reports: the one pointer of its row, who may take it from whom, and when it is paid."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..contracts import Tx
from ..errors import BadInput, Conflict
from ..journal import find, journal_of, last_answer
from ..records import Claim, Owed, Pointer, Settlement, TurnEnded
from ..records.storable import storable_text
from .debts import owe


class _Held(Pointer, frozen=True, kw_only=True):
    """A pointer with the inbox row that set it, and the journal's head then: what comes after is its work."""

    row: int
    head: int


# How a turn's end counts for those who wait for its answer elsewhere: as `aborted` unless it is here. One that gave way
# is the last only when what it gave way to was stopped.
REASONS: Mapping[str, Settlement] = {"succeeded": "answered", "cancelled": "cancelled", "yielded": "cancelled"}
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
    for a pointer that is none, and for a session below another: that one reports to its parent.
    """
    for text in (pointer.dispatcher, pointer.target):
        if not text or storable_text(text) != text:
            raise BadInput("reply_to must name a dispatcher and a target, in storable text", field="reply_to")
    found = tx.one("SELECT reply_to FROM sessions WHERE id = ? AND parent IS NULL", (session,))
    if found is None:
        raise BadInput(f"{session} reports to its parent, and to nobody else", field="reply_to")
    held = _decoder.decode(found[0]) if found[0] else None
    if held is not None:
        if not may_take(pointer.claim, held.claim):
            raise Conflict(f"session {session} already works for {held.dispatcher}:{held.target}")
        by = f"superseded by {pointer.dispatcher}:{pointer.target}"
        _pay(tx, session, held, text=by, reason="superseded", at=at)
    mine = _Held(**msgspec.structs.asdict(pointer), row=row, head=journal_of(tx, session)[1])
    tx.execute("UPDATE sessions SET reply_to = ? WHERE id = ?", (msgspec.json.encode(mine).decode(), session))


def settle(tx: Tx, session: str, *, at: int) -> None:
    """Report what came of the work of a session's tree, once all of it is quiescent, and clear its root's pointer.

    That is when nothing in it runs, waits for a person, or would start a run. Called in every transaction that can make
    it so.
    """
    waits = "SELECT 1 FROM inbox i JOIN sessions w ON w.id = i.session WHERE w.root = r.id AND i.state = 'waiting'"
    found = tx.one(
        "SELECT r.id, r.reply_to FROM sessions s JOIN sessions r ON r.id = s.root WHERE s.id = ? AND r.reply_to <> ''"
        f" AND NOT EXISTS (SELECT 1 FROM runs WHERE root = r.id) AND (r.parked = 1 OR NOT EXISTS ({waits}))",
        (session,),
    )
    if found is None:
        return
    root, held = found[0], _decoder.decode(found[1])
    last = find(tx, root, "kind = 'turn.ended' AND seq > ? ORDER BY seq DESC LIMIT 1", held.head)
    end = next((event.body for event in last if isinstance(event.body, TurnEnded)), None)
    said = [f"❌ {end.error}"] if end is not None and end.error else []
    text = "\n\n".join([*said, last_answer(tx, root, after=held.head)]).strip() or "(no output)"
    reason = "cancelled" if end is None else REASONS.get(end.outcome, "aborted")
    _pay(tx, root, held, text=text, reason=reason, at=at)
    tx.execute("UPDATE sessions SET reply_to = '' WHERE id = ?", (root,))


def _pay(tx: Tx, session: str, held: _Held, *, text: str, reason: Settlement, at: int) -> None:
    key, kind, to = f"report:{held.row}:{at}", held.dispatcher, held.target
    report = Owed(key=key, dispatcher=kind, target=to, text=text, debt="report", reason=reason, session=session)
    owe(tx, report, at=at)
