"""What a session has been sent: durable before it is acknowledged, consumed exactly once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby, takewhile
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import asdict

from . import records
from .contracts import Row, Tx
from .errors import BadInput, QueueFull, SessionClosed
from .journal import find, journal_of, last_answer, make_cursor
from .outbox import owe_parent, take_pointer
from .questions import pending
from .records.storable import check_storable
from .tables import insert, select

MAX_TEXT = 1_000_000
_GOES_ON = "state = 'consumed' OR state = 'waiting' AND session NOT IN (SELECT id FROM sessions WHERE parked = 1)"
_NUDGE = f"SELECT id FROM inbox WHERE session = ? AND cause = 'recovery' AND head = ? AND ({_GOES_ON})"
_TOLD = "session, id, key, at, head"  # what `_receipt` needs of a row


class Waiting(Struct, frozen=True, kw_only=True):
    """An inbox row that no turn has consumed yet."""

    row: int
    key: str
    at: int
    mode: records.Mode
    access: records.Access
    principal: str
    principal_kind: str
    text: str
    route: str
    cause: str


def check(message: records.Incoming) -> None:
    """Raise `BadInput` for a message that no session takes."""
    if not message.text.strip():
        raise BadInput("text must not be empty", field="text")
    if len(message.text) > MAX_TEXT:
        raise BadInput(f"text may have at most {MAX_TEXT} characters, not {len(message.text)}", field="text")
    if message.key is not None and not 1 <= len(message.key) <= 300:
        raise BadInput("key must have 1 to 300 characters", field="key")
    check_storable(text=message.text, key=message.key or "", route=message.route)


def accept(
    tx: Tx, session: str, message: records.Incoming, *, key: str, at: int, access: records.Access, cap: int
) -> tuple[records.Receipt, bool]:
    """Write the message and return its receipt and True; a key that was seen before gives the first receipt and False.

    A key is its sender's own: other principals' keys are other keys, whatever they say.
    A message lets a session that was stopped go on, a person's also a tree that was parked after repeated crashes.
    Raises `SessionClosed`, `QueueFull`, and `Conflict` for a `reply_to` that is refused; nothing is written then.
    """
    who = message.principal
    if (seen := receipt_of(tx, who, key)) is not None:
        return seen, False
    is_command = message.cause == "command"
    if not is_command:
        check_open(tx, session)
        if message.mode != "interrupt_hard":
            _check_room(tx, session, who.kind, cap)
    said = {name: getattr(message, name) for name in ("mode", "text", "route", "cause")}
    whose = {"access": access, "principal": who.name, "principal_kind": who.kind, "owed": int(bool(message.route))}
    place = {"session": session, "key": key, "at": at, "head": journal_of(tx, session)[1]}
    row = insert(tx, "inbox", {**place, **said, **whose}, more=f"RETURNING {_TOLD}")
    if message.reply_to is not None:
        take_pointer(tx, session, message.reply_to, row=int(row[1]), at=at)
    if not is_command:
        owe_parent(tx, session, row=int(row[1]))
    if message.cause == "message":
        _let_go_on(tx, session, person=who.kind == "person")
    return _receipt(tx, row), True


def receipt_of(tx: Tx, who: records.Principal, key: str) -> records.Receipt | None:
    """Return the receipt of a message that a sender sent before, by its key."""
    whose = "principal = ? AND principal_kind = ? AND key = ?"
    seen = tx.one(f"SELECT {_TOLD} FROM inbox WHERE {whose}", (who.name, who.kind, key))
    return None if seen is None else _receipt(tx, seen)


def _let_go_on(tx: Tx, session: str, *, person: bool) -> None:
    free = "stopped_at = NULL, parked = 0" if person else "stopped_at = NULL"
    tx.execute(f"UPDATE sessions SET {free} WHERE id = ?", (session,))
    tx.execute("UPDATE inbox SET state = 'waiting' WHERE session = ? AND state = 'held'", (session,))


def _check_room(tx: Tx, session: str, kind: records.PrincipalKind, cap: int) -> None:
    """Raise `QueueFull` when so many of a kind of principal wait: agents never keep people out."""
    which = "session = ? AND principal_kind = ? AND state = 'waiting'"
    (count,) = tx.one(f"SELECT count(*) FROM inbox WHERE {which}", (session, kind)) or (0,)
    if count >= cap:
        raise QueueFull(f"session {session} has {cap} waiting messages already", advice="send again later")


def check_open(tx: Tx, session: str) -> None:
    """Raise `SessionClosed` for a session that takes no more."""
    row = tx.one("SELECT archived_at FROM sessions WHERE id = ? AND deleted_at IS NULL", (session,))
    if row is None:
        raise SessionClosed(f"session {session} does not exist any more")
    if row[0] is not None:
        raise SessionClosed(f"session {session} is archived", advice="start a new session")


def _receipt(tx: Tx, row: Row) -> records.Receipt:
    session, number, key, at, head = row
    journal, _ = journal_of(tx, session)
    cursor, question = make_cursor(journal, head), pending(tx, session)
    return records.Receipt(session=session, row=number, key=key, at=at, cursor=cursor, question=question)


def waiting(tx: Tx, session: str) -> list[Waiting]:
    """Return the rows that no turn has consumed, oldest first."""
    return select(tx, Waiting, "inbox WHERE session = ? AND state = 'waiting' ORDER BY id", (session,), row="id")


def consumed_by(tx: Tx, session: str, turn: str) -> list[Waiting]:
    """Return the rows that a turn consumed, oldest first."""
    return select(tx, Waiting, "inbox WHERE session = ? AND turn = ? ORDER BY id", (session, turn), row="id")


def level_of(tx: Tx, session: str) -> tuple[records.Access, records.PrincipalKind]:
    """Return the level, and the kind of principal, of what a session last answered."""
    which = "inbox WHERE session = ? AND state = 'consumed' ORDER BY id DESC LIMIT 1"
    last = tx.one(f"SELECT access, principal_kind FROM {which}", (session,))
    found = last or tx.one("SELECT access, 'unattended' FROM sessions WHERE id = ?", (session,))
    return found or ("readonly", "unattended")


def prepared(row: Waiting) -> records.PreparedInput:
    """Return a row as it goes into the history, before any plugin has changed it.

    Of what came through a channel the model is told who wrote it, and where; of what another session sent, which one.
    """
    channel, _, _, *thread = [*row.route.split(":", 3), "", ""]
    where = f" | thread: {thread[0]}" if row.route and thread[0] else ""
    head = f"[channel: {channel} | user: {row.principal.rpartition(':')[2]}{where}]\n" if row.route else ""
    if row.principal_kind == "agent" and row.principal.startswith("session:"):
        head = f"(from: {row.principal.replace(':', ' ', 1)})\n"
    stamp = datetime.fromtimestamp(row.at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return records.PreparedInput(row=row.row, text=row.text, content=head + row.text, sender=row.principal, stamp=stamp)


def input_of(row: Waiting, ready: records.PreparedInput) -> records.InputAdded:
    """Return the event that a row becomes."""
    return records.InputAdded(**asdict(ready), key=row.key, cause=row.cause)


def next_batch(rows: Sequence[Waiting]) -> list[Waiting]:
    """Return the rows at the head of the queue that one turn may answer: of one access level and kind of principal."""
    return list(next((run for _, run in groupby(rows, attrgetter("access", "principal_kind"))), ()))


def consume(tx: Tx, rows: list[Waiting], turn: str) -> bool:
    """Mark rows as consumed by `turn`; false when one of them was settled meanwhile (then none is marked)."""
    if are_waiting(tx, rows) != len(rows):
        return False
    for row in rows:
        tx.execute("UPDATE inbox SET state = 'consumed', turn = ? WHERE id = ?", (turn, row.row))
    return True


def are_waiting(tx: Tx, rows: list[Waiting]) -> int:
    """Return how many of `rows` nobody has consumed or withdrawn."""
    marks = ", ".join("?" * len(rows))
    found = tx.one(f"SELECT count(*) FROM inbox WHERE state = 'waiting' AND id IN ({marks})", [row.row for row in rows])
    return int(found[0]) if found is not None else 0


def gave_way(tx: Tx, session: str) -> list[str]:
    """Return the turns that gave way, each to the next one, newest first; none once another has begun or ended."""
    where = "kind = 'turn.ended' AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = events.session)"
    ends = find(tx, session, f"{where} ORDER BY seq DESC")
    return [each.turn for each in takewhile(lambda end: getattr(end.body, "outcome", "") == "yielded", ends)]


def withdraw(tx: Tx, session: str, row: int) -> bool:
    """Settle a waiting row of the session as cancelled; false when a turn has consumed it."""
    which = "id = ? AND session = ? AND state = 'waiting' RETURNING id"
    return tx.one(f"UPDATE inbox SET state = 'cancelled', owed = 0 WHERE {which}", (row, session)) is not None


def result_of(tx: Tx, row: int) -> records.TurnResult | None:
    """Return how the turn that answers `row` ended, None while it has not.

    One that gave way, or was cut and is asked to go on, is answered by the turn that does.
    """
    found = tx.one("SELECT session, state, turn, head FROM inbox WHERE id = ?", (row,))
    if found is None or found[1] == "waiting":
        return None
    session, state, turn, head = found
    if state != "consumed":
        done = find(tx, session, "kind = 'command.finished' AND seq > ? ORDER BY seq", head) if state == "done" else ()
        ran = next((e.body for e in done if isinstance(e.body, records.CommandFinished) and e.body.row == row), None)
        outcome: records.Outcome = "cancelled" if ran is None else "succeeded" if ran.ok else "failed"
        return records.TurnResult(session=session, turn="", outcome=outcome, text=ran.text if ran else "")
    first = "SELECT min(seq) FROM events WHERE session = ? AND seq > ? AND turn = ?"
    for event in find(tx, session, f"kind = 'turn.ended' AND seq >= ({first}) ORDER BY seq", session, head, turn):
        if isinstance(end := event.body, records.TurnEnded) and end.outcome != "yielded":
            if end.kind == "crash" and (nudge := tx.one(_NUDGE, (session, event.seq))):
                return result_of(tx, int(nudge[0]))
            text, how = last_answer(tx, session, turn=event.turn), end.outcome
            return records.TurnResult(
                session=session, turn=event.turn, outcome=how, text=text, error=end.error, kind=end.kind
            )
    return None
