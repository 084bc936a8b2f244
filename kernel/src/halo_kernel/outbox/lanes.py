"""The order of sending: one part in flight for each chat, its states as updates under the account's lease."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..contracts import Lease, Tx, Value
from ..errors import Conflict
from ..records import Delivery, Part, PartState
from ..records.storable import storable_text
from ..tables import insert, select
from .debts import OPEN, find

_KEY = "'outbox:' || (SELECT value FROM meta WHERE name = 'workspace') || ':' || o.key || '#' || p.number"


class OpenPart(Part, frozen=True, kw_only=True):
    """A part that is neither sent nor given up; one that was `begun` may have arrived."""

    begun: bool


class Lane(NamedTuple):
    """What is sent one after the other; a thread is in its chat's order, and `lease` guards all of an account."""

    dispatcher: str
    lease: str
    chat: str


class Fate(NamedTuple):
    """What has become of an attempt to send a part; `not_before` when there is another."""

    state: PartState
    error: str = ""
    sent_id: str = ""
    not_before: int = 0


def lane_of(dispatcher: str, target: str) -> Lane:
    """Return the lane of a target; one that is no route of its dispatcher is a lane by itself."""
    kind, account, chat, *_ = [*target.split(":"), "", ""]
    account, chat = (account, chat) if kind == dispatcher else ("", target)
    return Lane(dispatcher, f"deliver:{dispatcher}:{account}", chat)


def due(tx: Tx, dispatchers: Collection[str], now: int) -> tuple[dict[Lane, int], int | None]:
    """Return each lane that has a part to send now, with its first delivery, and when the next one has."""
    marks = ", ".join("?" * len(dispatchers))
    rows = tx.execute(
        "SELECT o.id, o.dispatcher, o.target, max(p.not_before) FROM outbox o JOIN parts p ON p.delivery = o.id"
        f" WHERE p.state IN {OPEN} AND o.dispatcher IN ({marks}) GROUP BY o.id, o.dispatcher, o.target ORDER BY o.id",
        list(dispatchers),
    )
    first: dict[Lane, tuple[int, int]] = {}
    for delivery, dispatcher, target, not_before in rows:
        first.setdefault(lane_of(dispatcher, target), (delivery, not_before))  # in order: others wait for the first
    ready = {lane: delivery for lane, (delivery, not_before) in first.items() if not_before <= now}
    return ready, min((not_before for _, not_before in first.values() if not_before > now), default=None)


def next_part(tx: Tx, delivery: int) -> OpenPart | None:
    """Return the first part of a delivery that is open."""
    source = f"outbox o JOIN parts p ON delivery = id WHERE id = ? AND state IN {OPEN} ORDER BY number LIMIT 1"
    columns = {"key": _KEY, "text": "p.text", "begun": "state = 'sending'"}
    return next(iter(select(tx, OpenPart, source, (delivery,), **columns)), None)


def begin(tx: Tx, part: OpenPart, texts: Sequence[str], lease: Lease) -> OpenPart:
    """Say, before the first byte, that a part is being sent, and return it so.

    `texts` are the parts that it becomes; more than one only at its first time.
    """
    text, *more = map(storable_text, texts)
    _update(tx, part, lease, state="sending", attempt=part.attempt + 1, epoch=lease.epoch, text=text)
    for number, other in enumerate(more, part.number + 1):
        insert(tx, "parts", {"delivery": part.delivery, "number": number, "text": other})
    return replace(part, text=text, attempt=part.attempt + 1)


def end(tx: Tx, part: Part, fate: Fate, lease: Lease) -> Delivery | None:
    """Say what has become of a part that was being sent; return its whole delivery when that is settled now.

    After a part that failed, the rest of its delivery is not sent.
    """
    _update(tx, part, lease, **fate._asdict())
    if fate.state == "failed":
        tx.execute(
            "UPDATE parts SET state = 'failed', error = ? WHERE delivery = ? AND state = 'pending'",
            (f"after part {part.number}", part.delivery),
        )
    return find(tx, part.delivery) if next_part(tx, part.delivery) is None else None


def _update(tx: Tx, part: Part, lease: Lease, **values: Value) -> None:
    lease.check(tx)
    told = [storable_text(value) if isinstance(value, str) else value for value in values.values()]
    columns = ", ".join(f"{name} = ?" for name in values)
    which = f"delivery = ? AND number = ? AND state IN {OPEN}"
    row = tx.one(f"UPDATE parts SET {columns} WHERE {which} RETURNING number", (*told, part.delivery, part.number))
    if row is None:
        raise Conflict(f"part {part.number} of delivery {part.delivery} was erased meanwhile")
