"""To whom a session reports: the one pointer of its row, who may take it from whom, and how it is paid."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..contracts import Tx
from ..errors import BadInput, Conflict
from ..journal import journal_of
from ..records import Claim, Debt, Owed, Pointer, Settlement
from ..records.storable import is_storable
from .debts import owe


class Held(Pointer, frozen=True, kw_only=True):
    """A pointer with the inbox row that set it, and the journal's head then: what comes after is its work."""

    row: int
    head: int


# How a turn's end counts for those who wait for its answer elsewhere: as `aborted` unless it is here. One that gave way
# is the last only when what it gave way to was stopped.
REASONS: Mapping[str, Settlement] = {"succeeded": "answered", "cancelled": "cancelled", "yielded": "cancelled"}
read_pointer = msgspec.json.Decoder(Held).decode  # as a session's row keeps one


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
        if not text or not is_storable(text):
            raise BadInput("reply_to must name a dispatcher and a target, in storable text", field="reply_to")
    found = tx.one("SELECT reply_to FROM sessions WHERE id = ? AND parent IS NULL", (session,))
    if found is None:
        raise BadInput(f"{session} reports to its parent, and to nobody else", field="reply_to")
    if found[0]:
        held = read_pointer(found[0])
        if not may_take(pointer.claim, held.claim):
            raise Conflict(f"session {session} already works for {held.dispatcher}:{held.target}")
        by = f"superseded by {pointer.dispatcher}:{pointer.target}"
        pay(tx, session, held, text=by, reason="superseded", at=at)
    _point(tx, session, pointer, row)


def owe_parent(tx: Tx, session: str, *, row: int) -> None:
    """Have a session report to its parent what comes of its inbox row `row`, unless it does that already."""
    found = tx.one("SELECT parent FROM sessions WHERE id = ? AND parent IS NOT NULL AND reply_to = ''", (session,))
    if found is not None:
        _point(tx, session, Pointer(dispatcher="parent", target=str(found[0])), row)


def _point(tx: Tx, session: str, pointer: Pointer, row: int) -> None:
    mine = Held(**msgspec.structs.asdict(pointer), row=row, head=journal_of(tx, session)[1])
    tx.execute("UPDATE sessions SET reply_to = ? WHERE id = ?", (msgspec.json.encode(mine).decode(), session))


def pay(
    tx: Tx, session: str, held: Held, *, text: str, reason: Settlement, at: int, debt: Debt = "report", which: str = ""
) -> None:
    """Owe a report to the holder of a root's pointer; `which` tells several of one pointer apart."""
    key, kind, to = f"{debt}:{held.row}:{which or at}", held.dispatcher, held.target
    owe(tx, Owed(key=key, dispatcher=kind, target=to, text=text, debt=debt, reason=reason, session=session), at=at)
