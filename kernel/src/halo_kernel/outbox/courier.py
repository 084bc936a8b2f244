"""Carries what one workspace owes: lane by lane, each part begun in the open, sent, and settled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from .. import hookspecs
from ..contracts import Clock, Database, Dispatcher, Lease
from ..errors import DeliveryFailed, HaloError, LeaseHeld, LeaseLost
from ..hooks import Hooks
from ..log import logger
from ..records import Part, PartState
from ..supervisor import contained, end_task
from . import debts, lanes
from .lanes import Lane

T = TypeVar("T")

SEND_SECONDS = 60.0
GIVE_UP_SECONDS = 86_400
_AGAIN_SECONDS = 5.0
_LONGEST_WAIT = 300.0
_UNKNOWN = "it is not known whether this part arrived"
_ENDED = "its process ended while it was being sent"


class Courier:
    """Sends the deliveries of one database whose dispatchers are loaded; others wait for a server that has them."""

    def __init__(
        self,
        database: Database,
        dispatchers: Mapping[str, Dispatcher],
        *,
        clock: Clock,
        hooks: Hooks,
        give_up: float = GIVE_UP_SECONDS,
    ) -> None:
        self._database = database
        self._dispatchers = dispatchers
        self._clock = clock
        self._hooks = hooks
        self._give_up = give_up * 1000
        self._leases: dict[str, Lease] = {}
        self._busy: dict[Lane, asyncio.Task[None]] = {}
        self._log = logger("outbox")

    async def run(self) -> None:
        """Send whatever is due, for as long as this runs; a part in flight when it is cancelled counts as unknown."""
        bell = self._database.listen("outbox")
        try:
            while True:
                wait = await self._start_lanes()
                waiting = asyncio.ensure_future(bell.wait())
                await asyncio.wait({waiting, *self._busy.values()}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                await end_task(waiting, name="outbox bell", within=1.0)
        finally:
            bell.close()
            for task in list(self._busy.values()):
                task.cancel()
            await asyncio.gather(*(lease.release() for lease in self._leases.values()), return_exceptions=True)

    async def _start_lanes(self) -> float | None:
        """Start every lane that has something to send, and return in how many seconds to look again."""
        now = self._clock.now()
        try:
            ready, later = await self._database.read(lambda tx: lanes.due(tx, list(self._dispatchers), now))
        except HaloError as error:
            self._log.warning("could not look for deliveries", error=error.message)
            return _AGAIN_SECONDS
        for lane, delivery in ready.items():
            if lane not in self._busy:
                task = asyncio.ensure_future(self._send_all(lane, delivery))
                self._busy[lane] = task
                task.add_done_callback(partial(self._rested, lane))
        soon = [] if later is None else [max(0.0, (later - now) / 1000)]
        return min([*soon, *([_AGAIN_SECONDS] if ready else [])], default=None)

    def _rested(self, lane: Lane, task: asyncio.Task[None]) -> None:
        self._busy.pop(lane, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._leases.pop(lane.account, None)
            if not isinstance(error, LeaseHeld | LeaseLost):  # then another process sends
                self._log.error("deliveries stopped", lane=lane.name, error=repr(error))

    async def _send_all(self, lane: Lane, delivery: int) -> None:
        lease = await self._lease(lane.account)
        dispatcher = self._dispatchers[lane.dispatcher]
        lost = await self._database.read(lambda tx: lanes.begun(tx, delivery))
        if lost is not None and not await self._unknown(dispatcher, lost, lease, _ENDED):
            return
        while (part := await self._database.read(lambda tx: lanes.next_part(tx, delivery))) is not None:
            texts = self._split(dispatcher, part)
            if not await self._database.write(partial(lanes.begin, part=part, texts=texts, lease=lease)):
                return
            if not await self._send(dispatcher, part, texts[0], lease):
                return
        self._database.notify("outbox")

    async def _lease(self, account: str) -> Lease:
        if account not in self._leases:
            self._leases[account] = await self._database.lease(f"deliver:{account}")
        return self._leases[account]

    def _split(self, dispatcher: Dispatcher, part: Part) -> Sequence[str]:
        """Return the parts that a delivery's text is sent in; after its first attempt they are what they are."""
        if part.number > 1 or part.attempt:
            return [part.text]
        try:
            return [text for text in dispatcher.split(part.text) if text] or [part.text]
        except Exception as error:
            self._log.warning("sent in one part", dispatcher=dispatcher.kind, error=repr(error))
            return [part.text]

    async def _send(self, dispatcher: Dispatcher, part: Part, text: str, lease: Lease) -> bool:
        """Send one part; false when the lane has to wait, or its delivery has failed."""
        sending = replace(part, text=text, attempt=part.attempt + 1)
        try:
            sent_id = await self._bounded(dispatcher.deliver(sending), f"delivery by {dispatcher.kind}")
        except DeliveryFailed as error:
            return await self._refused(sending, error, lease)
        except Exception as error:
            return await self._unknown(dispatcher, sending, lease, repr(error))
        return await self._finish(sending, "sent", lease, sent_id=str(sent_id))

    async def _bounded(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Await a dispatcher's work for a minute; a deaf one is left behind."""
        task = asyncio.ensure_future(contained(work))
        try:
            await asyncio.wait({task}, timeout=SEND_SECONDS)
            if not task.done() or task.cancelled():
                raise TimeoutError(f"{name} gave no answer within {SEND_SECONDS:g} s")
            return task.result()
        finally:
            await end_task(task, name=name, within=1.0)

    async def _refused(self, part: Part, error: DeliveryFailed, lease: Lease) -> bool:
        """Nothing was sent: try again later, unless no attempt will do better or the delivery has waited too long."""
        now = self._clock.now()
        if error.permanent:
            return await self._finish(part, "failed", lease, error=error.message)
        planned = await self._database.read(lambda tx: debts.find(tx, part.delivery))
        wait = min(2.0 ** min(part.attempt - 1, 16), _LONGEST_WAIT) if error.retry_after is None else error.retry_after
        at = now + round(wait * 1000)
        if at > planned.at + self._give_up:
            return await self._finish(part, "failed", lease, error=f"given up: {error.message}")
        await self._finish(part, "pending", lease, error=error.message, not_before=at)
        return False

    async def _unknown(self, dispatcher: Dispatcher, part: Part, lease: Lease, why: str) -> bool:
        """Nobody knows whether the part arrived: its dispatcher's guarantee decides what becomes of it."""
        if dispatcher.guarantee in ("keyed", "local"):
            later = self._clock.now() + round(1000 * min(2.0 ** min(part.attempt - 1, 16), _LONGEST_WAIT))
            await self._finish(part, "pending", lease, error=why, not_before=later)
            return False
        if dispatcher.guarantee == "none":
            return await self._finish(part, "uncertain", lease, error=f"{_UNKNOWN}: {why}")
        try:
            found = await self._bounded(dispatcher.find(part), f"look-up by {dispatcher.kind}")
        except Exception as error:
            self._log.warning("could not look for a part", dispatcher=dispatcher.kind, error=repr(error))
            await asyncio.sleep(_AGAIN_SECONDS)
            return False  # it stays begun, and is looked for again
        if found is not None:
            return await self._finish(part, "sent", lease, sent_id=found)
        return await self._finish(part, "pending", lease, error=why)

    async def _finish(
        self, part: Part, state: PartState, lease: Lease, *, sent_id: str = "", error: str = "", not_before: int = 0
    ) -> bool:
        """Write what became of a part, and tell about its delivery when that is settled; true when the lane goes on."""
        settled = await self._database.write(
            partial(
                lanes.finish, part=part, state=state, lease=lease, sent_id=sent_id, error=error, not_before=not_before
            )
        )
        if state in ("failed", "uncertain"):
            self._log.error("a part was not delivered", target=part.target, state=state, error=error)
        if settled:
            delivery = await self._database.read(lambda tx: debts.find(tx, part.delivery))
            self._hooks.notify(hookspecs.delivery_settled, delivery=delivery)
        return state in ("sent", "uncertain")
