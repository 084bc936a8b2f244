"""What came of a session's work, told to those it works for: once all of it rests, in the write that lets it rest.

A child reports to its parent, whose inbox is in the same database: the report is a message there, of the same write. A
root reports to the holder of its pointer, through the outbox.
"""

from __future__ import annotations

from .contracts import Tx
from .inbox import level_of
from .journal import find, journal_of, last_answer
from .outbox import REASONS, Held, owe_parent, pay, read_pointer
from .records import Debt, Settlement, TurnEnded
from .tables import insert

REPORT_CHARS = 8192
_BELOW = "WITH RECURSIVE below(id) AS (SELECT ? UNION ALL SELECT s.id FROM sessions s JOIN below b ON s.parent = b.id)"


def settle(tx: Tx, session: str, *, at: int, turn: str = "") -> None:
    """Report what came of the work of a session, and of each above it, that has nothing left to do.

    Called in every transaction that can make a tree quiescent. `turn` is one of the session's that has just ended with
    an answer: whoever it worked for gets that at once when the session goes on.
    """
    name: str | None = session
    while name is not None:
        parent, pointer, parked, deleted = tx.one(
            "SELECT s.parent, s.reply_to, r.parked, s.deleted_at"
            " FROM sessions s JOIN sessions r ON r.id = s.root WHERE s.id = ?",
            (name,),
        ) or (None, "", 0, None)
        if pointer and is_quiescent(tx, name, parked=bool(parked)):
            _report(tx, name, read_pointer(pointer), at=at, deleted=deleted is not None)
            tx.execute("UPDATE sessions SET reply_to = '' WHERE id = ?", (name,))
        elif pointer:
            if turn:
                _report_meanwhile(tx, name, read_pointer(pointer), turn, at=at)
            return
        name, turn = parent, ""


def is_quiescent(tx: Tx, session: str, *, parked: bool = False) -> bool:
    """Tell whether nothing from a session down runs, waits for a person, or would start a run."""
    waits = " OR EXISTS (SELECT 1 FROM inbox WHERE session = below.id AND state = 'waiting')"
    busy = f"EXISTS (SELECT 1 FROM runs WHERE session = below.id){'' if parked else waits}"
    gone = "id IN (SELECT id FROM sessions WHERE deleted_at IS NOT NULL)"
    return tx.one(f"{_BELOW} SELECT 1 FROM below WHERE NOT {gone} AND ({busy}) LIMIT 1", (session,)) is None


def _report(tx: Tx, session: str, held: Held, *, at: int, deleted: bool) -> None:
    last = find(tx, session, "kind = 'turn.ended' AND seq > ? ORDER BY seq DESC LIMIT 1", held.head)
    end = next((event.body for event in last if isinstance(event.body, TurnEnded)), None)
    reason: Settlement = "cancelled" if end is None else REASONS.get(end.outcome, "aborted")
    reason = "deleted" if deleted else reason
    text = last_answer(tx, session, after=held.head).strip()
    if held.dispatcher == "parent":
        why = (end.error or f"the turn was {end.outcome}") if end is not None else "it ended before it began"
        why = "the session was deleted" if deleted else why
        said = [] if reason == "answered" else [f"[SUB-AGENT ABORTED: {why}]"]
        text = "\n\n".join([*said, text or "(no output)"])
    else:
        said = [f"❌ {end.error}"] if end is not None and end.error else []
        text = "\n\n".join(filter(None, [*said, text])) or "(no output)"
    _tell(tx, session, held, text, reason=reason, at=at)


def _report_meanwhile(tx: Tx, session: str, held: Held, turn: str, *, at: int) -> None:
    """Tell what a turn answered, while the work goes on; what only people asked for is nobody else's matter."""
    asked = tx.one(
        "SELECT 1 FROM inbox WHERE session = ? AND turn = ? AND principal_kind <> 'person' LIMIT 1", (session, turn)
    )
    answer = last_answer(tx, session, turn=turn).strip()
    if asked is not None and answer and held.claim == "report":
        text = f"[Interim report · status: still running]\n\n{answer}\n\nNot the final result."
        _tell(tx, session, held, text, reason="answered", at=at, debt="interim", which=turn)


def _tell(
    tx: Tx, session: str, held: Held, text: str, *, reason: Settlement, at: int, debt: Debt = "report", which: str = ""
) -> None:
    if len(text) > REPORT_CHARS:
        shown = f"{len(text)} chars total, showing first {REPORT_CHARS}; all of it is the output of session {session}"
        text = f"{text[:REPORT_CHARS]}\n\n[Report truncated: {shown}.]"
    if held.dispatcher == "parent":
        _write(tx, session, held.target, text, key=f"{debt}:{session}:{which or held.row}", at=at)
    else:
        pay(tx, session, held, text=text, reason=reason, at=at, debt=debt, which=which)


def _write(tx: Tx, child: str, parent: str, text: str, *, key: str, at: int) -> None:
    """Write a report into the inbox of a parent, who owes its own parent what it makes of that.

    One that was stopped reads it when somebody asks it to go on.
    """
    found = tx.one(
        "SELECT stopped_at FROM sessions WHERE id = ? AND archived_at IS NULL AND deleted_at IS NULL", (parent,)
    )
    if found is None:
        return
    access, _ = level_of(tx, parent)
    who = {"principal": f"session:{child}", "principal_kind": "agent", "access": access}
    what = {"text": text, "route": "", "cause": "report", "mode": "interrupt_soft"}
    state = {"state": "waiting" if found[0] is None else "held", "head": journal_of(tx, parent)[1]}
    values = {"session": parent, "key": key, "at": at, **who, **what, **state}
    row = insert(tx, "inbox", values, more="ON CONFLICT(principal, principal_kind, key) DO NOTHING RETURNING id")
    if row and state["state"] == "waiting":
        owe_parent(tx, parent, row=int(row[0]))
