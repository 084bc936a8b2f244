"""Carries what one workspace owes: lane by lane, each part begun in the open, sent, and settled.

One part is in flight for each chat; its states are updates under the account's lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, NamedTuple

from msgspec.structs import replace

from .. import hookspecs
from ..contracts import Clock, Database, Dispatcher, Lease, Tx, Value
from ..errors import Conflict, DeliveryFailed, LeaseHeld, LeaseLost
from ..hooks import Hooks, checked
from ..log import logger
from ..records import Delivery, Part, PartState
from ..records.storable import storable_text
from ..secrets import Redactor
from ..supervisor import at_bell, bounded, end_task, given
from ..tables import insert, select
from .debts import OPEN, find

SEND_SECONDS = 60.0
GIVE_UP_SECONDS = 86_400
_AGAIN_SECONDS = 5.0
_LONGEST_WAIT = 300.0
_LAND_SECONDS = 1.0
_REPEATS = ("keyed", "local")
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


@dataclass(eq=False)
class Courier:
    """Sends the deliveries of one database whose dispatchers are loaded; others wait for a server that has them."""

    _database: Database
    _dispatchers: Mapping[str, Dispatcher]
    _clock: Clock
    _hooks: Hooks
    _mask: Redactor
    _busy: dict[Lane, asyncio.Task[None]] = field(default_factory=dict[Lane, "asyncio.Task[None]"])
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Send whatever is due, for as long as this runs.

        Cancelled, it begins no other part and gives those in flight a second; what becomes of the rest is unknown.
        """
        self._stopping.clear()
        try:
            await at_bell(self._database.listen("outbox"), self._start_lanes)
        finally:
            self._stopping.set()
            if self._busy:
                await asyncio.wait(self._busy.values(), timeout=_LAND_SECONDS)
            await asyncio.gather(*(end_task(task, name="outbox", within=1.5) for task in self._busy.values()))

    async def _start_lanes(self) -> float | None:
        """Start every lane that has something to send, and return in how many seconds to look again."""
        now = self._clock.now()
        ready, later = await self._database.read(lambda tx: due(tx, self._dispatchers, now))
        for lane in ready.keys() - self._busy.keys():
            self._busy[lane] = asyncio.create_task(self._serve(lane, ready[lane]))
            self._busy[lane].add_done_callback(partial(self._rested, lane))
        return None if later is None else (later - now) / 1000

    def _rested(self, lane: Lane, _: asyncio.Task[None]) -> None:
        del self._busy[lane]
        self._database.notify("outbox")  # the lane may have another delivery

    async def _serve(self, lane: Lane, delivery: int) -> None:
        """Send a delivery; when that cannot go on, keep the lane for a while before anybody looks again."""
        try:
            await self._send_all(lane, delivery)
        except Exception as error:
            if not isinstance(error, LeaseHeld | LeaseLost):  # then another process sends
                logger("outbox").error("deliveries stopped", lane=lane, error=repr(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _AGAIN_SECONDS)

    async def _send_all(self, lane: Lane, delivery: int) -> None:
        # Kept until the database is closed, so that an account stays with one process.
        lease, dispatcher = await self._database.lease(lane.lease), self._dispatchers[lane.dispatcher]
        while not self._stopping.is_set():
            part = await self._database.read(lambda tx: next_part(tx, delivery))
            if part is None:
                return
            if part.begun and dispatcher.guarantee not in _REPEATS:
                fate = await self._look(dispatcher, part, "its process ended while it was being sent")
            else:
                texts = await self._split(dispatcher, part)
                part = await self._database.write(partial(begin, part=part, texts=texts, lease=lease))
                fate = await self._send(dispatcher, part)
            await self._end(part, fate, lease)
            if fate.not_before:
                return

    async def _split(self, dispatcher: Dispatcher, part: Part) -> Sequence[str]:
        """Return the parts that a delivery's text is sent in; after its first attempt they are what they are."""
        if part.number == 1 and not part.attempt:
            try:
                texts = await self._ask(dispatcher.split, part.text, Iterable[str])
                return [text for text in texts if text.strip()] or [part.text]
            except Exception as error:
                logger("outbox").warning("sent in one part", dispatcher=dispatcher.kind, error=repr(error))
        return [part.text]

    async def _send(self, dispatcher: Dispatcher, part: OpenPart) -> Fate:
        """Send a part; where an earlier attempt may have come through, a refusal says nothing of it."""
        try:
            sent_id = await self._ask(dispatcher.deliver, part, object)
        except DeliveryFailed as error:
            return self._later(part, str(error), doubt=part.begun, wait=inf if error.permanent else error.retry_after)
        except Exception as error:
            return await self._look(dispatcher, part, repr(error))
        return Fate("sent", sent_id=str(sent_id or ""))

    async def _look(self, dispatcher: Dispatcher, part: Part, why: str) -> Fate:
        """Nobody knows whether the part arrived: its dispatcher's guarantee decides what becomes of it."""
        if dispatcher.guarantee in _REPEATS:
            return self._later(part, why, doubt=True)
        if dispatcher.guarantee != "queryable":
            return Fate("uncertain", f"it is not known whether this part arrived: {why}")
        try:
            found = await self._ask(dispatcher.find, part, str | None)
        except Exception as error:
            return self._later(part, f"{why}; looking for it: {error!r}", doubt=True)
        return self._later(part, why, doubt=False) if found is None else Fate("sent", sent_id=found)

    def _later(self, part: Part, why: str, *, doubt: bool, wait: object = None) -> Fate:
        """Try again after `wait` seconds, or ever longer, unless the delivery's time to live is over by then.

        A part that may have arrived stays begun until that is known.
        """
        if not (isinstance(wait, int | float) and wait > 0):
            wait = min(2.0 ** min(part.attempt - 1, 16), _LONGEST_WAIT)
        at = self._clock.now() + max(1, round(1000 * min(wait, GIVE_UP_SECONDS + 1)))
        if at > part.at + GIVE_UP_SECONDS * 1000:
            return Fate("uncertain" if doubt else "failed", why if wait == inf else f"given up: {why}")
        return Fate("sending" if doubt else "pending", why, not_before=at)

    async def _ask(self, method: Callable[[Any], Any], about: object, wanted: Any) -> Any:
        """Return what a dispatcher answers within a minute. Raises `WrongAnswer` for something else than is wanted."""
        return checked(await bounded(given(method, about), name="delivery", seconds=SEND_SECONDS), wanted)

    async def _end(self, part: Part, fate: Fate, lease: Lease) -> None:
        """Write what became of a part, and tell about its delivery when that is settled."""
        fate = fate._replace(error=self._mask(fate.error))
        settled = await self._database.write(partial(end, part=part, fate=fate, lease=lease))
        if fate.state in ("failed", "uncertain"):
            logger("outbox").error("a part was not delivered", target=part.target, state=fate.state, error=fate.error)
        if settled is not None:
            self._hooks.notify(hookspecs.delivery_settled, delivery=settled)


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
