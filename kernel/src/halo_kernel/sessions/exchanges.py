"""An exchange: what a person said, and what was answered to it."""

from __future__ import annotations

from .. import records
from ..contracts import Tx
from ..errors import Conflict, NotFound
from ..journal import append, find, read_turn


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
    body = event.body
    person = isinstance(body, records.InputAdded) and body.cause == "message" and not body.sender.startswith("session:")
    return body.row if person and isinstance(body, records.InputAdded) else 0


def _is_gone(tx: Tx, session: str, seq: int) -> bool:
    bodies = (event.body for event in find(tx, session, "kind = 'exchange.deleted'"))
    return any(isinstance(body, records.ExchangeDeleted) and body.start <= seq <= body.end for body in bodies)
