"""Taking out what events say: for good, the one operation that rewrites a journal, or only out of every view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from .. import records
from ..blobs import named_in
from ..contracts import Tx
from ..errors import BadInput, Conflict, NotFound
from .store import append, find, read, read_turn

_WORDLESS = (records.ContextErased, records.ContextPrepared, records.ExchangeDeleted, records.UsageRecorded)
# What is wordless in these is left, since folds and accounts count by it; of all others nothing is.
_WORDS: Mapping[type[records.Body], Sequence[str]] = {
    records.ContextCut: ("replacement", "reason", "text"),
    records.TurnEnded: ("error",),
    **dict.fromkeys(_WORDLESS, ()),
}
_TITLED = records.SessionTitled | records.SessionCreated
_QUESTION = "UPDATE questions SET arguments = '{}', text = '', options = '[]', answer = '' WHERE id = ? AND session = ?"


def erase(
    tx: Tx, session: str, start: int, end: int, *, by: str, at: int
) -> tuple[tuple[records.Event, ...], set[str]]:
    """Take what events `start` to `end` say out of every row; return what was journaled, and the blobs they named.

    What a cut put in their place goes with them, and so do the messages, replies, questions and title that they were.
    Raises `BadInput` for what is no range of whole turns, `Conflict` while the session runs or sends.
    """
    events = read(tx, session)
    _check(tx, session, events, start, end)
    found = [event for event in events[start - 1 :] if event.seq <= end or _covers(event.body, end)]
    for event in found:
        rest = records.encode_body(_wordless(event.body, by, at))
        tx.execute("UPDATE events SET body = ? WHERE session = ? AND seq = ?", (rest, session, event.seq))
        if isinstance(event.body, records.InputAdded):
            tx.execute("UPDATE inbox SET text = '' WHERE id = ? AND session = ?", (event.body.row, session))
        if isinstance(event.body, records.QuestionAsked):
            tx.execute(_QUESTION, (event.body.question, session))
    for table in ("snapshots", "partials"):
        tx.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    _blank_debts(tx, session, found)
    bodies: list[records.Body] = [records.ContextErased(start=start, end=end, by=by)]
    if any(isinstance(event.body, _TITLED) for event in found):
        left = (event.body for event in reversed(read(tx, session)))
        title = next((body.title for body in left if isinstance(body, _TITLED)), "")
        tx.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session))
        bodies.insert(0, records.SessionTitled(title=title))
    return append(tx, session, bodies, at=at), named_in(" ".join(records.encode_body(event.body) for event in found))


def _check(tx: Tx, session: str, events: Sequence[records.Event], start: int, end: int) -> None:
    if not 1 <= start <= end <= len(events):
        raise BadInput(f"start and end must be events of the session, 1 to {len(events)}, in this order", field="start")
    turns = {event.turn for event in events[start - 1 : end]} - {""}
    whole = [start, end, *(event.seq for event in events if event.turn in turns)]
    if (min(whole), max(whole)) != (start, end):
        raise BadInput(f"a turn is erased whole: this range must be {min(whole)} to {max(whole)}", field="start")
    sending = "SELECT session FROM outbox JOIN parts ON delivery = id WHERE state = 'sending'"
    busy = f"SELECT session FROM runs UNION {sending}"
    if tx.one(f"SELECT 1 FROM ({busy}) AS busy WHERE session = ?", (session,)) is not None:
        raise Conflict(f"session {session} is at work", advice="wait until it rests and has sent what it owes")


def _wordless(body: records.Body, by: str, at: int) -> records.Body:
    words = _WORDS.get(type(body))
    if words is None or isinstance(body, records.Foreign):
        return records.Foreign(kind=records.kind_of(body), data={"erased": True, "by": by, "at": at})
    return replace(body, **dict.fromkeys(words, ""))


def _covers(body: records.Body, end: int) -> bool:
    return isinstance(body, records.ContextCut) and body.start <= end


def _blank_debts(tx: Tx, session: str, gone: list[records.Event]) -> None:
    """Empty what was owed as a turn ended or asked, and reports that end with an answer; what waits is not sent."""
    ends = {str(event.at) for event in gone if isinstance(event.body, records.TurnEnded | records.QuestionAsked)}
    bodies = (event.body for event in gone)
    said = [records.plain_text(body.content) for body in bodies if isinstance(body, records.AssistantMessage)]
    answers = tuple(filter(None, said))
    for number, key, debt, text in tx.execute("SELECT id, key, debt, text FROM outbox WHERE session = ?", (session,)):
        if key.rpartition(":")[2] in ends or (debt == "report" and text.endswith(answers)):
            tx.execute("UPDATE outbox SET text = '' WHERE id = ?", (number,))
            tx.execute("UPDATE parts SET state = 'failed' WHERE delivery = ? AND state = 'pending'", (number,))
            tx.execute("UPDATE parts SET text = '', error = 'erased' WHERE delivery = ?", (number,))


def delete_exchange(tx: Tx, session: str, row: int, *, by: str, at: int) -> tuple[records.Event, ...]:
    """Let a person's message be shown no more, to people and models; return the event that says so.

    Where several messages were answered together, the answer goes with the last of them. What a summary says of it
    stays. Raises `NotFound` for what is no exchange of the session, `Conflict` while it runs.
    """
    if tx.one("SELECT 1 FROM runs WHERE session = ?", (session,)) is not None:
        raise Conflict(f"session {session} is running", advice="wait until it rests")
    inputs = list(find(tx, session, "kind = 'input.added' ORDER BY seq DESC"))
    said = next((event for event in inputs if _row(event) == row), None)
    if said is None or _is_gone(tx, session, said.seq):
        raise NotFound(f"message {row} is no exchange of session {session}")
    rest = [event for event in read_turn(tx, session, said.turn) if event.seq > said.seq] if said.turn else []
    answered_with_later = any(_row(event) and not _is_gone(tx, session, event.seq) for event in rest)
    end = said.seq if answered_with_later or not rest else rest[-1].seq
    return append(tx, session, [records.ExchangeDeleted(row=row, start=said.seq, end=end, by=by)], at=at)


def _row(event: records.Event) -> int:
    """Return the number of the message that an event adds if a person wrote it, else 0."""
    said = event.body
    if isinstance(said, records.InputAdded) and said.cause == "message" and not said.sender.startswith("session:"):
        return said.row
    return 0


def _is_gone(tx: Tx, session: str, seq: int) -> bool:
    bodies = (event.body for event in find(tx, session, "kind = 'exchange.deleted'"))
    return any(isinstance(body, records.ExchangeDeleted) and body.start <= seq <= body.end for body in bodies)
