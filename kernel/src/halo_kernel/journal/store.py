"""Writing and reading a journal's events inside a transaction, and a place in it.

A cursor is such a place, opaque to everybody else and the same in every protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..contracts import Tx, Value
from ..errors import BadInput, CursorGone, NotFound
from ..records import AssistantMessage, Body, Delta, Event, decode_body, encode_body, kind_of, plain_text

_ALL = 1 << 62
_OF_TURN = (
    "turn = ? AND seq >= (SELECT seq FROM events WHERE session = ? AND turn = ? AND kind = 'turn.started'"
    " ORDER BY seq DESC LIMIT 1)"
)


def append(tx: Tx, session: str, bodies: Sequence[Body], *, at: int, turn: str = "") -> tuple[Event, ...]:
    """Add events to the journal of `session` and return them as they will be read. Raises `NotFound`.

    So that folds of what is written and of what is read agree, whatever a model or a plugin gave.
    """
    row = tx.one(
        "UPDATE sessions SET head = head + ?, updated_at = CASE WHEN updated_at < ? THEN ? ELSE updated_at END"
        " WHERE id = ? RETURNING head",
        (len(bodies), at, at, session),
    )
    if row is None:
        raise NotFound(f"there is no session {session}")
    events: list[Event] = []
    for seq, body in enumerate(bodies, int(row[0]) - len(bodies) + 1):
        values = (session, seq, at, kind := kind_of(body), turn, raw := encode_body(body))
        tx.execute("INSERT INTO events(session, seq, at, kind, turn, body) VALUES (?, ?, ?, ?, ?, ?)", values)
        events.append(Event(session=session, seq=seq, at=at, turn=turn, body=decode_body(kind, raw)))
    return tuple(events)


def find(tx: Tx, session: str, where: str, *args: Value) -> Iterator[Event]:
    """Return the events that `where` tells in SQL, with `args` for its marks."""
    rows = tx.execute(f"SELECT seq, at, kind, turn, body FROM events WHERE session = ? AND {where}", (session, *args))
    for seq, at, kind, turn, body in rows:
        yield Event(session=session, seq=seq, at=at, turn=turn, body=decode_body(kind, body))


def read(tx: Tx, session: str, *, after: int = 0, limit: int = _ALL) -> list[Event]:
    """Return the events behind number `after`, oldest first, at most `limit` of them."""
    return list(find(tx, session, "seq > ? ORDER BY seq LIMIT ?", after, limit))


def read_turn(tx: Tx, session: str, turn: str) -> list[Event]:
    """Return the events of one turn, found from the journal's end."""
    return list(find(tx, session, f"{_OF_TURN} ORDER BY seq", turn, session, turn))


def last_answer(tx: Tx, session: str, *, turn: str | None = None, after: int = 0) -> str:
    """Return the text of the last model answer behind number `after` that has one, of `turn` if given, else ''."""
    of_turn, args = ("TRUE", ()) if turn is None else (_OF_TURN, (turn, session, turn))
    where = f"{of_turn} AND kind = 'assistant.message' AND seq > ? ORDER BY seq DESC LIMIT 200"
    bodies = (event.body for event in find(tx, session, where, *args, after))
    return next(filter(None, (plain_text(body.content) for body in bodies if isinstance(body, AssistantMessage))), "")


def journal_of(tx: Tx, session: str) -> tuple[str, int]:
    """Return the journal's id and its head. Raises `NotFound`."""
    row = tx.one("SELECT journal, head FROM sessions WHERE id = ? AND deleted_at IS NULL", (session,))
    if row is None:
        raise NotFound(f"there is no session {session}")
    return str(row[0]), int(row[1])


def read_partial(tx: Tx, session: str) -> Delta | None:
    """Return the answer that is being streamed as far as it was kept, in one piece."""
    row = tx.one("SELECT turn, reply, text FROM partials WHERE session = ?", (session,))
    return None if row is None else Delta(session=session, turn=row[0], reply=row[1], offset=0, text=row[2])


def keep_partial(tx: Tx, partial: Delta | None) -> None:
    """Keep the answer that is being streamed as far as it has come, while its turn runs."""
    if partial is not None:
        tx.execute(
            "INSERT INTO partials(session, turn, reply, text) SELECT session, turn, ?, ? FROM runs"
            " WHERE session = ? AND turn = ? ON CONFLICT(session) DO UPDATE"
            " SET turn = excluded.turn, reply = excluded.reply, text = excluded.text",
            (partial.reply, partial.text, partial.session, partial.turn),
        )


def make_cursor(journal: str, seq: int) -> str:
    """Return the cursor that stands after event `seq` of `journal`."""
    return f"{journal}.{seq}"


def parse_cursor(cursor: str | None, journal: str, head: int) -> int:
    """Return the sequence number that `cursor` stands after, 0 for None.

    Raises `BadInput` for a malformed cursor, `CursorGone` for one of another journal or one past its head.
    """
    if cursor is None:
        return 0
    name, dot, number = cursor.rpartition(".")
    if not dot or not name or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise BadInput(f"{cursor[:80]!r} is not a cursor: it must be one that this server gave out", field="after")
    if name != journal or int(number) > head:
        raise CursorGone("this cursor belongs to another journal", advice="start from the view that comes with this")
    return int(number)
