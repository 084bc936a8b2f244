"""Questions that keep a turn waiting: asked once, settled once, by a person or by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from . import records
from .access import fold_access
from .contracts import Tx, Value
from .errors import Conflict, Forbidden, NotFound
from .journal import append
from .tables import insert, select

Asker = Literal["guard", "tool", "model"]
_End = Literal["approved", "denied", "expired"]


class Paused(Exception):
    """A turn has to wait for a person: `asker` has a question about `call`, without one about the model call itself."""

    def __init__(self, question: records.Question, asker: Asker, call: records.ToolCall | None = None) -> None:
        super().__init__(question.text)
        self.question = question
        self.asker: Asker = asker
        self.call = call or records.ToolCall("", "", {})


def ask(tx: Tx, session: str, pause: Paused, *, turn: str, access: records.Access, at: int) -> records.QuestionAsked:
    """Store a question, pause its turn, and return the event that tells of it. `access` is the call's level."""
    question, call = pause.question, pause.call
    ends = at + question.expires_in * 1000
    told = {"call": call.id, "tool": call.name, "text": question.text, "expires_at": ends}
    who = {"session": session, "turn": turn, "asker": pause.asker, "access": question.access or access}
    lists = {"arguments": call.arguments, "options": question.options}
    texts = {name: msgspec.json.encode(value).decode() for name, value in lists.items()}
    row = insert(tx, "questions", {**who, **told, **texts, "asked_at": at}, more="RETURNING id")
    tx.execute("UPDATE runs SET waiting = 1 WHERE session = ?", (session,))
    return msgspec.convert({**told, "question": row[0], "options": question.options}, records.QuestionAsked)


def in_words(question: records.Question) -> str:
    """Return a question as a chat shows it, with the numbers that answer it: 1 allows, 2 refuses, others choose."""
    choices = ["✅", "❌", *question.options]
    return "\n".join([f"❓ {question.text}", "", *(f"{number}. {each}" for number, each in enumerate(choices, 1))])


def pending(tx: Tx, session: str) -> int | None:
    """Return the question that keeps a session waiting, if one does."""
    row = tx.one("SELECT id FROM questions WHERE session = ? AND state = 'pending'", (session,))
    return None if row is None else int(row[0])


def answer(
    tx: Tx, number: int, principal: records.Principal, *, approved: bool, text: str, at: int, by: str = ""
) -> tuple[records.QuestionInfo, tuple[records.Event, ...]]:
    """Settle a question by its one answer, of `by` or the principal, and return it with what was journaled.

    Raises `NotFound`, `Forbidden` for who may not do what the call would, `Conflict` for one that is settled.
    """
    info = _find(tx, number, principal)
    if fold_access(principal.access, info.access) != info.access:
        raise Forbidden(f"question {number} is answered by somebody with {info.access} access")
    if info.state != "pending" or info.expires_at <= at:
        how = "has expired" if info.state == "pending" else f"was {info.state} already"
        raise Conflict(f"question {number} {how}", advice="look at the conversation: it has gone on")
    state: _End = "approved" if approved else "denied"
    events = _settle(tx, "id = ?", number, state=state, text=text, by=by or principal.name, at=at)
    return _find(tx, number, principal), events


def _settle(
    tx: Tx, where: str, value: str | int, *, state: _End, text: str = "", by: str = "", at: int
) -> tuple[records.Event, ...]:
    """Settle the pending questions that `where` tells and journal it; what is settled stays as it is."""
    rows = tx.execute(
        f"UPDATE questions SET state = ?, answer = ?, answered_by = ? WHERE state = 'pending' AND {where}"
        " RETURNING id, session, turn, call",
        (state, text, by, value),
    )
    events: list[records.Event] = []
    for number, session, turn, call in rows:
        body = records.QuestionSettled(question=number, call=call, state=state, text=text, by=by)
        events += append(tx, session, [body], at=at, turn=turn)
    return tuple(events)


def supersede(
    tx: Tx, session: str, *, at: int, why: str = "superseded by a newer message"
) -> tuple[records.Event, ...]:
    """Deny the open question of a session because something else goes first."""
    return _settle(tx, "session = ?", session, state="denied", text=why, at=at)


def expire(tx: Tx, *, now: int) -> tuple[tuple[records.Event, ...], int | None]:
    """Settle every question whose time is over; return what was journaled, and when the next one ends."""
    events = _settle(tx, "expires_at <= ?", now, state="expired", at=now)
    (later,) = tx.one("SELECT min(expires_at) FROM questions WHERE state = 'pending'") or (None,)
    return events, later


def answers(tx: Tx, session: str, turn: str) -> dict[tuple[str, Asker], records.Answer]:
    """Return the last answer to each asker of each call of a turn; the model call's own has the call ''."""
    rows = tx.execute(
        "SELECT call, asker, id, state, answer, answered_by FROM questions"
        " WHERE session = ? AND turn = ? AND state <> 'pending' ORDER BY id",
        (session, turn),
    )
    return {
        (call, asker): records.Answer(question=number, approved=state == "approved", text=text or state, by=by)
        for call, asker, number, state, text, by in rows
    }


def listed(
    tx: Tx, principal: records.Principal, *, session: str | None, everything: bool
) -> Sequence[records.QuestionInfo]:
    """Return the questions of a principal's sessions, oldest first, the open ones alone unless `everything`."""
    return _of(tx, principal, "session = coalesce(?, session) AND (state = 'pending' OR ?)", session, int(everything))


def _find(tx: Tx, number: int, principal: records.Principal) -> records.QuestionInfo:
    for info in _of(tx, principal, "id = ?", number):
        return info
    raise NotFound(f"there is no question {number}")


def _of(tx: Tx, principal: records.Principal, where: str, *args: Value) -> list[records.QuestionInfo]:
    own = "SELECT id FROM sessions WHERE principal = ? AND principal_kind = ? AND deleted_at IS NULL"
    source = f"questions WHERE session IN ({own}) AND {where} ORDER BY id"
    given = (principal.name, principal.kind, *args)
    return select(tx, records.QuestionInfo, source, given, json=("arguments", "options"))
