"""Questions that keep a turn waiting: asked once, settled once, by a person or by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from .access import fold_access
from .contracts import Row, Tx
from .errors import Conflict, Forbidden, NotFound
from .journal import append
from .records import (
    Access,
    Answer,
    Event,
    Principal,
    Question,
    QuestionAsked,
    QuestionInfo,
    QuestionSettled,
    ToolCall,
)

Asker = Literal["guard", "tool", "model"]
_SELECT = f"SELECT {', '.join(QuestionInfo.__struct_fields__)} FROM questions WHERE"
_SUPERSEDED = "superseded by a newer message"


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A question on its way into the journal: who asks it, about which call (None: the model call itself)."""

    question: Question
    asker: Asker
    call: ToolCall | None


class Paused(Exception):
    """A turn has to wait for a person; `pending` is what to ask."""

    def __init__(self, pending: Pending) -> None:
        super().__init__(pending.question.text)
        self.pending = pending


def ask(tx: Tx, session: str, pending: Pending, *, turn: str, access: Access, at: int) -> QuestionAsked:
    """Store a question, pause its turn, and return the event that tells of it. `access` is the call's level."""
    question, call = pending.question, pending.call or ToolCall("", "", {})
    level = access if question.access is None else question.access
    expires_at = at + question.expires_in * 1000
    row = tx.one(
        "INSERT INTO questions"
        "(session, turn, asker, call, tool, arguments, text, options, access, asked_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            session,
            turn,
            pending.asker,
            call.id,
            call.name,
            msgspec.json.encode(call.arguments).decode(),
            question.text,
            msgspec.json.encode(question.options).decode(),
            level,
            at,
            expires_at,
        ),
    )
    assert row is not None
    tx.execute("UPDATE runs SET waiting = 1 WHERE session = ?", (session,))
    return QuestionAsked(
        question=row[0],
        call=call.id,
        tool=call.name,
        text=question.text,
        options=question.options,
        expires_at=expires_at,
    )


def pending(tx: Tx, session: str) -> int | None:
    """Return the question that keeps a session waiting, if one does."""
    row = tx.one("SELECT id FROM questions WHERE session = ? AND state = 'pending'", (session,))
    return None if row is None else int(row[0])


def answer(
    tx: Tx, number: int, principal: Principal, *, approved: bool, text: str, at: int
) -> tuple[QuestionInfo, tuple[Event, ...]]:
    """Settle a question by its one answer, and return it with what was journaled.

    Raises `NotFound`, `Forbidden` for who may not do what the call would, `Conflict` for one that is settled.
    """
    info = _find(tx, number, principal)
    if fold_access(principal.access, info.access) != info.access:
        raise Forbidden(f"question {number} is answered by somebody with {info.access} access")
    if info.state != "pending" or info.expires_at <= at:
        how = "has expired" if info.state == "pending" else f"was {info.state} already"
        raise Conflict(f"question {number} {how}", advice="look at the conversation: the call has gone on without it")
    events = settle(tx, number, "approved" if approved else "denied", text=text, by=principal.name, at=at)
    return _find(tx, number, principal), events


def settle(
    tx: Tx, number: int, state: Literal["approved", "denied", "expired"], *, text: str = "", by: str = "", at: int
) -> tuple[Event, ...]:
    """Settle a pending question and journal it; one that is settled stays as it is."""
    row = tx.one(
        "UPDATE questions SET state = ?, answer = ?, answered_by = ? WHERE id = ? AND state = 'pending'"
        " RETURNING session, turn, call",
        (state, text, by, number),
    )
    if row is None:
        return ()
    body = QuestionSettled(question=number, call=row[2], state=state, text=text, by=by)
    return append(tx, row[0], [body], at=at, turn=row[1])


def supersede(tx: Tx, session: str, *, at: int, why: str = _SUPERSEDED) -> tuple[Event, ...]:
    """Deny the open question of a session because something else goes first."""
    number = pending(tx, session)
    return () if number is None else settle(tx, number, "denied", text=why, at=at)


def expire(tx: Tx, *, now: int) -> tuple[tuple[Event, ...], int | None]:
    """Settle every question whose time is over; return what was journaled, and when the next one ends."""
    due = list(tx.execute("SELECT id FROM questions WHERE state = 'pending' AND expires_at <= ?", (now,)))
    events = tuple(event for (number,) in due for event in settle(tx, number, "expired", at=now))
    row = tx.one("SELECT min(expires_at) FROM questions WHERE state = 'pending'")
    return events, None if row is None or row[0] is None else int(row[0])


def answers(tx: Tx, session: str, turn: str) -> dict[tuple[str, Asker], Answer]:
    """Return the last answer to each asker of each call of a turn; the model call's own has the call ''."""
    rows = tx.execute(
        "SELECT call, asker, id, state, answer, answered_by FROM questions"
        " WHERE session = ? AND turn = ? AND state <> 'pending' ORDER BY id",
        (session, turn),
    )
    return {
        (call, asker): Answer(question=number, approved=state == "approved", text=text or state, by=by)
        for call, asker, number, state, text, by in rows
    }


def listed(tx: Tx, principal: Principal, *, session: str | None, everything: bool) -> Sequence[QuestionInfo]:
    """Return the questions of a principal's sessions, oldest first, the open ones alone unless `everything`."""
    rows = tx.execute(
        f"{_SELECT} session IN (SELECT id FROM sessions WHERE principal = ? AND"
        " principal_kind = ? AND deleted_at IS NULL) AND session = coalesce(?, session)"
        " AND (state = 'pending' OR ?) ORDER BY id",
        (principal.name, principal.kind, session, int(everything)),
    )
    return [_info(row) for row in rows]


def _find(tx: Tx, number: int, principal: Principal) -> QuestionInfo:
    row = tx.one(
        f"{_SELECT} id = ? AND session IN"
        " (SELECT id FROM sessions WHERE principal = ? AND principal_kind = ? AND deleted_at IS NULL)",
        (number, principal.name, principal.kind),
    )
    if row is None:
        raise NotFound(f"there is no question {number}")
    return _info(row)


def _info(row: Row) -> QuestionInfo:
    values = dict(zip(QuestionInfo.__struct_fields__, row, strict=True))
    lists = {name: msgspec.json.decode(values[name]) for name in ("arguments", "options")}
    return msgspec.convert({**values, **lists}, QuestionInfo)
