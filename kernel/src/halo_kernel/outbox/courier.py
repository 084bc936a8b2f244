"""Carries what one workspace owes: lane by lane, each part begun in the open, sent, and settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from .. import hookspecs
from ..contracts import Clock, Database, Dispatcher, Lease
from ..errors import DeliveryFailed, LeaseHeld, LeaseLost
from ..hooks import Hooks, checked
from ..log import logger
from ..records import Part
from ..secrets import Redactor
from ..supervisor import at_bell, bounded, end_task, given
from . import lanes
from .lanes import Fate, Lane, OpenPart

SEND_SECONDS = 60.0
GIVE_UP_SECONDS = 86_400
_AGAIN_SECONDS = 5.0
_LONGEST_WAIT = 300.0
_LAND_SECONDS = 1.0
_REPEATS = ("keyed", "local")


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
        ready, later = await self._database.read(lambda tx: lanes.due(tx, self._dispatchers, now))
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
            part = await self._database.read(lambda tx: lanes.next_part(tx, delivery))
            if part is None:
                return
            if part.begun and dispatcher.guarantee not in _REPEATS:
                fate = await self._look(dispatcher, part, "its process ended while it was being sent")
            else:
                texts = await self._split(dispatcher, part)
                part = await self._database.write(partial(lanes.begin, part=part, texts=texts, lease=lease))
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
        settled = await self._database.write(partial(lanes.end, part=part, fate=fate, lease=lease))
        if fate.state in ("failed", "uncertain"):
            logger("outbox").error("a part was not delivered", target=part.target, state=fate.state, error=fate.error)
        if settled is not None:
            self._hooks.notify(hookspecs.delivery_settled, delivery=settled)
