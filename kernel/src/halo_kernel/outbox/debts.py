"""The rows of what is owed, and of the parts that it is sent in."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from ..contracts import Tx, Value
from ..errors import Conflict, NotFound
from ..records import Debt, Delivery, Owed, PartStatus, Settlement
from ..records.storable import storable_text
from ..tables import insert, select

OPEN = "('pending', 'sending')"


def owe(tx: Tx, owed: Owed, *, at: int) -> int:
    """Plan a delivery in one part and return its number; a key that was seen before gives the first one's.

    Its dispatcher may split the part before it is sent for the first time.
    """
    text = storable_text(owed.text)
    values = {**asdict(owed), "text": text, "at": at}
    row = insert(tx, "outbox", values, more="ON CONFLICT(key) DO UPDATE SET key = excluded.key RETURNING id")
    part = {"delivery": row[0], "number": 1, "text": text}
    insert(tx, "parts", part, more="ON CONFLICT(delivery, number) DO NOTHING")
    return int(row[0])


def owe_replies(
    tx: Tx, session: str, *, text: str, reason: Settlement = "answered", at: int, debt: Debt = "reply"
) -> None:
    """Owe one reply to each route among the session's messages that no longer wait and have none yet.

    Those of turns that gave way or were cut are among them: the turn that answers for all replies to all. After an
    interim one, and after a question, a later turn replies to the same routes; where nobody waits for a reply, a
    question goes to whoever wrote last through a channel to the root of the tree.
    """
    owing = "session = ? AND owed = 1 AND state <> 'waiting'"
    routes = list(tx.execute(f"SELECT route, min(id) FROM inbox WHERE {owing} GROUP BY route ORDER BY 2", (session,)))
    if debt == "question" and not routes:
        routed = "session = (SELECT root FROM sessions WHERE id = ?) AND route <> '' ORDER BY id DESC LIMIT 1"
        routes = list(tx.execute(f"SELECT route, id FROM inbox WHERE {routed}", (session,)))
    for route, row in routes:
        key, kind = f"{debt}:{row}:{at}", route.partition(":")[0]
        reply = Owed(key=key, dispatcher=kind, target=route, text=text, debt=debt, reason=reason, session=session)
        owe(tx, reply, at=at)
    if debt == "reply":
        tx.execute(f"UPDATE inbox SET owed = 0 WHERE {owing}", (session,))


def has_unsettled(tx: Tx) -> bool:
    """Tell whether a part is neither sent nor given up."""
    return tx.one(f"SELECT 1 FROM parts WHERE state IN {OPEN} LIMIT 1") is not None


def listed(tx: Tx, *, session: str | None, unsettled: bool, limit: int) -> Sequence[Delivery]:
    """Return deliveries, newest first."""
    some = f"EXISTS (SELECT 1 FROM parts WHERE delivery = outbox.id AND state IN {OPEN})"
    where = f"session = coalesce(?, session) AND (? = 0 OR {some}) ORDER BY id DESC LIMIT ?"
    return _deliveries(tx, where, session, int(unsettled), limit)


def find(tx: Tx, number: int) -> Delivery:
    """Return a delivery with its parts. Raises `NotFound`."""
    for delivery in _deliveries(tx, "id = ?", number):
        return delivery
    raise NotFound(f"there is no delivery {number}")


def _deliveries(tx: Tx, where: str, *args: Value) -> list[Delivery]:
    found = select(tx, Delivery, f"outbox WHERE {where}", args, json=("parts",), parts="'[]'")
    parts = "parts WHERE delivery = ? ORDER BY number"
    return [replace(each, parts=tuple(select(tx, PartStatus, parts, (each.id,)))) for each in found]


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
