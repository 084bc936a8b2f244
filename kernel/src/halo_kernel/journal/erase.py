"""Taking out for good what events say: the one operation that rewrites a journal."""

from __future__ import annotations

from msgspec.structs import replace

from ..blobs import named_in
from ..contracts import Tx
from ..errors import BadInput, Conflict
from ..records import (
    AssistantMessage,
    Body,
    ContextCut,
    ContextErased,
    ContextPrepared,
    Event,
    Foreign,
    InputAdded,
    QuestionAsked,
    SessionCreated,
    SessionTitled,
    TurnEnded,
    UsageRecorded,
    decode_body,
    encode_body,
    kind_of,
    plain_text,
)
from .store import append, journal_of


def erase(tx: Tx, session: str, start: int, end: int, *, by: str, at: int) -> tuple[tuple[Event, ...], set[str]]:
    """Take what events `start` to `end` say out of every row; return what was journaled, and the blobs they named.

    What a cut put in their place goes with them, and so do the messages, replies, questions and title that they were.
    Raises `BadInput` for what is no range of whole turns, `Conflict` while the session runs or sends.
    """
    _check(tx, session, start, end)
    rows = tx.execute(
        "SELECT seq, at, kind, body FROM events WHERE session = ? AND seq >= ? AND (seq <= ? OR kind = 'context.cut')",
        (session, start, end),
    )
    blobs: set[str] = set()
    answers: set[str] = set()
    ends: set[str] = set()
    titled = False
    for seq, then, kind, raw in rows:
        body = decode_body(kind, raw)
        if seq <= end or (isinstance(body, ContextCut) and body.start <= end):
            blobs |= named_in(raw)
            answers |= {plain_text(body.content)} if isinstance(body, AssistantMessage) else set()
            ends |= {str(then)} if isinstance(body, TurnEnded) else set()
            titled = titled or isinstance(body, SessionTitled | SessionCreated)
            _blank(tx, session, body)
            tx.execute(
                "UPDATE events SET body = ? WHERE session = ? AND seq = ?",
                (encode_body(_wordless(body, by, at)), session, seq),
            )
    _blank_debts(tx, session, ends, tuple(answers - {""}))
    for table in ("snapshots", "partials"):
        tx.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    titles = [_retitled(tx, session)] if titled else []
    return append(tx, session, [*titles, ContextErased(start=start, end=end, by=by)], at=at), blobs


def _check(tx: Tx, session: str, start: int, end: int) -> None:
    _, head = journal_of(tx, session)
    if not 1 <= start <= end <= head:
        raise BadInput(f"start and end must be events of the session, 1 to {head}, in this order", field="start")
    whole = tx.one(
        "SELECT min(seq), max(seq) FROM events WHERE session = ? AND turn IN"
        " (SELECT turn FROM events WHERE session = ? AND seq BETWEEN ? AND ? AND turn <> '')",
        (session, session, start, end),
    )
    if whole is not None and whole[0] is not None and (whole[0] < start or whole[1] > end):
        first, last = min(start, whole[0]), max(end, whole[1])
        raise BadInput(f"a turn is erased whole: this range must be {first} to {last}", field="start")
    busy = tx.one(
        "SELECT 1 FROM runs WHERE session = ? UNION ALL SELECT 1 FROM outbox JOIN parts ON delivery = id"
        " WHERE session = ? AND state = 'sending' LIMIT 1",
        (session, session),
    )
    if busy is not None:
        raise Conflict(f"session {session} is at work", advice="wait until it rests and has sent what it owes")


def _wordless(body: Body, by: str, at: int) -> Body:
    """Return what is left of a body: what folds and accounts count by, but no word."""
    match body:
        case ContextCut():
            return replace(body, replacement="", reason="")
        case TurnEnded():
            return replace(body, error="")
        case ContextErased() | ContextPrepared() | UsageRecorded():
            return body
        case _:
            return Foreign(kind=kind_of(body), data={"erased": True, "by": by, "at": at})


def _blank(tx: Tx, session: str, body: Body) -> None:
    """Empty the row that an event tells of."""
    match body:
        case InputAdded(row=row):
            tx.execute("UPDATE inbox SET text = '' WHERE id = ? AND session = ?", (row, session))
        case QuestionAsked(question=number):
            blank = "arguments = '{}', text = '', options = '[]', answer = ''"
            tx.execute(f"UPDATE questions SET {blank} WHERE id = ? AND session = ?", (number, session))
        case _:
            pass


def _blank_debts(tx: Tx, session: str, ends: set[str], answers: tuple[str, ...]) -> None:
    """Empty what was owed when a turn ended, and reports that end with an answer; what was not sent yet will not be."""
    found = list(tx.execute("SELECT id, key, debt, text FROM outbox WHERE session = ? AND text <> ''", (session,)))
    for number, key, debt, text in found:
        if key.rpartition(":")[2] in ends or (debt == "report" and text.endswith(answers)):
            tx.execute("UPDATE outbox SET text = '' WHERE id = ?", (number,))
            tx.execute(
                "UPDATE parts SET text = '', error = 'erased', state = CASE state WHEN 'pending' THEN 'failed'"
                " ELSE state END WHERE delivery = ?",
                (number,),
            )


def _retitled(tx: Tx, session: str) -> SessionTitled:
    """Give the session the last title that is left."""
    told = tx.execute(
        "SELECT kind, body FROM events WHERE session = ? AND kind IN ('session.created', 'session.titled')"
        " ORDER BY seq DESC",
        (session,),
    )
    bodies = (decode_body(kind, raw) for kind, raw in told)
    title = next((body.title for body in bodies if isinstance(body, SessionTitled | SessionCreated)), "")
    tx.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session))
    return SessionTitled(title=title)
