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
    encode_body,
    kind_of,
    plain_text,
)
from .store import append, journal_of, read


def erase(tx: Tx, session: str, start: int, end: int, *, by: str, at: int) -> tuple[tuple[Event, ...], set[str]]:
    """Take what events `start` to `end` say out of every row; return what was journaled, and the blobs they named.

    What a cut put in their place goes with them, and so do the messages, replies, questions and title that they were.
    Raises `BadInput` for what is no range of whole turns, `Conflict` while the session runs or sends.
    """
    _check(tx, session, start, end)
    found = [event for event in read(tx, session, after=start - 1) if event.seq <= end or _covers(event.body, end)]
    blobs = named_in(" ".join(encode_body(event.body) for event in found))
    for event in found:
        body = encode_body(_wordless(event.body, by, at))
        tx.execute("UPDATE events SET body = ? WHERE session = ? AND seq = ?", (body, session, event.seq))
        match event.body:
            case InputAdded(row=row):
                tx.execute("UPDATE inbox SET text = '' WHERE id = ?", (row,))
            case QuestionAsked(question=number):
                nothing = "arguments = '{}', text = '', options = '[]', answer = ''"
                tx.execute(f"UPDATE questions SET {nothing} WHERE id = ?", (number,))
            case _:
                pass
    _blank_debts(tx, session, found)
    for table in ("snapshots", "partials"):
        tx.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    titles = [_retitled(tx, session)] if any(_title_of(event.body) is not None for event in found) else []
    return append(tx, session, [*titles, ContextErased(start=start, end=end, by=by)], at=at), blobs


def _check(tx: Tx, session: str, start: int, end: int) -> None:
    _, head = journal_of(tx, session)
    if not 1 <= start <= end <= head:
        raise BadInput(f"start and end must be events of the session, 1 to {head}, in this order", field="start")
    rows = tx.execute(
        "SELECT seq FROM events WHERE session = ? AND turn IN"
        " (SELECT turn FROM events WHERE session = ? AND seq BETWEEN ? AND ? AND turn <> '')",
        (session, session, start, end),
    )
    whole = {start, end, *(int(seq) for (seq,) in rows)}
    if (min(whole), max(whole)) != (start, end):
        raise BadInput(f"a turn is erased whole: this range must be {min(whole)} to {max(whole)}", field="start")
    busy = tx.one(
        "SELECT 1 FROM runs WHERE session = ? UNION ALL SELECT 1 FROM outbox JOIN parts ON delivery = id"
        " WHERE session = ? AND state = 'sending' LIMIT 1",
        (session, session),
    )
    if busy is not None:
        raise Conflict(f"session {session} is at work", advice="wait until it rests and has sent what it owes")


def _covers(body: Body, end: int) -> bool:
    return isinstance(body, ContextCut) and body.start <= end


def _title_of(body: Body) -> str | None:
    return body.title if isinstance(body, SessionTitled | SessionCreated) else None


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


def _blank_debts(tx: Tx, session: str, gone: list[Event]) -> None:
    """Empty what was owed when a turn ended, and reports that end with an answer; what was not sent yet will not be."""
    ends = {str(event.at) for event in gone if isinstance(event.body, TurnEnded)}
    said = [plain_text(event.body.content) for event in gone if isinstance(event.body, AssistantMessage)]
    answers = tuple(text for text in said if text)
    for number, key, debt, text in tx.execute("SELECT id, key, debt, text FROM outbox WHERE session = ?", (session,)):
        if key.rpartition(":")[2] in ends or (debt == "report" and text.endswith(answers)):
            tx.execute("UPDATE outbox SET text = '' WHERE id = ?", (number,))
            tx.execute(
                "UPDATE parts SET text = '', error = 'erased', state = CASE state WHEN 'pending' THEN 'failed'"
                " ELSE state END WHERE delivery = ?",
                (number,),
            )


def _retitled(tx: Tx, session: str) -> SessionTitled:
    """Give the session the last title that is left."""
    titles = [title for event in read(tx, session) if (title := _title_of(event.body)) is not None]
    tx.execute("UPDATE sessions SET title = ? WHERE id = ?", (title := titles[-1] if titles else "", session))
    return SessionTitled(title=title)
