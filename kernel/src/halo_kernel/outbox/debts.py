"""The rows of what is owed, and of the parts that it is sent in."""

from __future__ import annotations

from collections.abc import Sequence

from ..contracts import Tx
from ..errors import Conflict, NotFound
from ..records import Delivery, Owed, PartStatus, Settlement
from ..records.storable import storable_text

_FIELDS = Delivery.__struct_fields__[:-1]
_PART_FIELDS = PartStatus.__struct_fields__
OPEN = "('pending', 'sending')"


def owe(tx: Tx, owed: Owed, *, at: int) -> int:
    """Plan a delivery in one part and return its number; a key that was seen before gives the first one's.

    Its dispatcher may split the part before it is sent for the first time.
    """
    text = storable_text(owed.text)
    row = tx.one(
        "INSERT INTO outbox(key, dispatcher, target, debt, reason, session, at, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(key) DO NOTHING RETURNING id",
        (owed.key, owed.dispatcher, owed.target, owed.debt, owed.reason, owed.session, at, text),
    )
    if row is not None:
        tx.execute("INSERT INTO parts(delivery, number, text) VALUES (?, 1, ?)", (row[0], text))
    known = row or tx.one("SELECT id FROM outbox WHERE key = ?", (owed.key,))
    assert known is not None
    return int(known[0])


def owe_replies(tx: Tx, session: str, *, text: str, reason: Settlement, at: int) -> None:
    """Owe one reply to each route among the session's messages that no longer wait and have none yet.

    Those of turns that gave way or were cut are among them: the turn that answers for all replies to all.
    """
    mine = "WHERE session = ? AND owed = 1 AND state <> 'waiting'"
    routes = list(tx.execute(f"SELECT route, min(id) FROM inbox {mine} GROUP BY route ORDER BY 2", (session,)))
    for route, row in routes:
        key, kind = f"reply:{row}:{at}", route.partition(":")[0]
        reply = Owed(key=key, dispatcher=kind, target=route, text=text, debt="reply", reason=reason, session=session)
        owe(tx, reply, at=at)
    tx.execute(f"UPDATE inbox SET owed = 0 {mine}", (session,))


def has_unsettled(tx: Tx) -> bool:
    """Tell whether a part is neither sent nor given up."""
    return tx.one(f"SELECT 1 FROM parts WHERE state IN {OPEN} LIMIT 1") is not None


def listed(tx: Tx, *, session: str | None, unsettled: bool, limit: int) -> Sequence[Delivery]:
    """Return deliveries, newest first."""
    found = tx.execute(
        "SELECT id FROM outbox WHERE session = coalesce(?, session) AND (? = 0 OR EXISTS (SELECT 1 FROM parts WHERE"
        f" delivery = outbox.id AND state IN {OPEN})) ORDER BY id DESC LIMIT ?",
        (session, int(unsettled), limit),
    )
    return [find(tx, number) for (number,) in list(found)]


def find(tx: Tx, number: int) -> Delivery:
    """Return a delivery with its parts. Raises `NotFound`."""
    row = tx.one(f"SELECT {', '.join(_FIELDS)} FROM outbox WHERE id = ?", (number,))
    if row is None:
        raise NotFound(f"there is no delivery {number}")
    parts = tx.execute(f"SELECT {', '.join(_PART_FIELDS)} FROM parts WHERE delivery = ? ORDER BY number", (number,))
    found = tuple(PartStatus(**dict(zip(_PART_FIELDS, part, strict=True))) for part in parts)
    return Delivery(**dict(zip(_FIELDS, row, strict=True)), parts=found)


def retry(tx: Tx, number: int, *, at: int) -> Delivery:
    """Make the failed and uncertain parts of a delivery pending, as if owed now. Raises `NotFound`, `Conflict`."""
    find(tx, number)
    again = tx.one(
        "UPDATE parts SET state = 'pending', not_before = 0, error = ''"
        " WHERE delivery = ? AND state IN ('failed', 'uncertain') AND text <> '' RETURNING number",
        (number,),
    )
    if again is None:
        raise Conflict(f"delivery {number} has no part that failed or is uncertain")
    tx.execute("UPDATE outbox SET at = ? WHERE id = ?", (at, number))
    return find(tx, number)
