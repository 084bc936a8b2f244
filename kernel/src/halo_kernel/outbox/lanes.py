"""The order of sending: one part in flight for each chat, its states as guarded updates under the account's lease."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..contracts import Lease, Tx
from ..records import Part, PartState
from .debts import OPEN

_PART = {
    **{name: f"p.{name}" for name in ("delivery", "number", "text", "attempt")},
    **{name: f"o.{name}" for name in ("target", "debt", "reason", "session")},
    "key": "o.key || '#' || p.number",
}
_SEGMENTS = 3  # dispatcher, account, chat: a thread is in its chat's order


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What is sent one after the other: `name` is dispatcher, account and chat; `account` is whose lease guards it."""

    name: str
    dispatcher: str
    account: str


def lane_of(dispatcher: str, target: str) -> Lane:
    """Return the lane of a target; one that is no route of its dispatcher is a lane by itself."""
    segments = target.split(":")
    if segments[0] != dispatcher:
        return Lane(name=f"{dispatcher}:{target}", dispatcher=dispatcher, account=dispatcher)
    return Lane(name=":".join(segments[:_SEGMENTS]), dispatcher=dispatcher, account=":".join(segments[: _SEGMENTS - 1]))


def due(tx: Tx, dispatchers: Collection[str], now: int) -> tuple[dict[Lane, int], int | None]:
    """Return each lane that has a part to send now, with its first delivery, and when the next one has."""
    marks = ", ".join("?" * len(dispatchers))
    rows = tx.execute(
        "SELECT o.id, o.dispatcher, o.target, max(p.not_before) FROM outbox o JOIN parts p ON p.delivery = o.id"
        f" WHERE p.state IN {OPEN} AND o.dispatcher IN ({marks}) GROUP BY o.id, o.dispatcher, o.target ORDER BY o.id",
        list(dispatchers),
    )
    ready: dict[Lane, int] = {}
    later: dict[Lane, int] = {}
    for delivery, dispatcher, target, not_before in rows:
        lane = lane_of(dispatcher, target)
        if lane in ready or lane in later:
            continue  # in order: it waits for the one before it
        if not_before <= now:
            ready[lane] = delivery
        else:
            later[lane] = not_before
    return ready, min(later.values(), default=None)


def begun(tx: Tx, delivery: int) -> Part | None:
    """Return a part that somebody began to send, and nobody knows how that went."""
    return _part(tx, delivery, "sending")


def next_part(tx: Tx, delivery: int) -> Part | None:
    """Return the first part of a delivery that is still to be sent."""
    return _part(tx, delivery, "pending")


def _part(tx: Tx, delivery: int, state: str) -> Part | None:
    row = tx.one(
        f"SELECT {', '.join(_PART.values())} FROM outbox o JOIN parts p ON p.delivery = o.id"
        " WHERE o.id = ? AND p.state = ? ORDER BY p.number LIMIT 1",
        (delivery, state),
    )
    return None if row is None else Part(**dict(zip(_PART, row, strict=True)))


def begin(tx: Tx, part: Part, texts: Sequence[str], lease: Lease) -> bool:
    """Say, before the first byte, that a part is being sent; `texts` are the parts that it becomes, at its first time.

    False when it is not pending any more.
    """
    lease.check(tx)
    changed = tx.one(
        "UPDATE parts SET state = 'sending', attempt = attempt + 1, epoch = ?, text = ?"
        " WHERE delivery = ? AND number = ? AND state = 'pending' RETURNING number",
        (lease.epoch, texts[0], part.delivery, part.number),
    )
    if changed is None:
        return False
    for number, text in enumerate(texts[1:], part.number + 1):
        tx.execute("INSERT INTO parts(delivery, number, text) VALUES (?, ?, ?)", (part.delivery, number, text))
    return True


def finish(
    tx: Tx, part: Part, state: PartState, lease: Lease, *, sent_id: str = "", error: str = "", not_before: int = 0
) -> bool:
    """Settle a part that is being sent, or put it back; true when its whole delivery is settled now.

    After a part that failed, the rest of its delivery is not sent.
    """
    lease.check(tx)
    tx.execute(
        "UPDATE parts SET state = ?, sent_id = ?, error = ?, not_before = ?"
        " WHERE delivery = ? AND number = ? AND state = 'sending'",
        (state, sent_id, error, not_before, part.delivery, part.number),
    )
    if state == "failed":
        tx.execute(
            "UPDATE parts SET state = 'failed', error = ? WHERE delivery = ? AND state = 'pending'",
            (f"after part {part.number}", part.delivery),
        )
    return tx.one(f"SELECT 1 FROM parts WHERE delivery = ? AND state IN {OPEN}", (part.delivery,)) is None
