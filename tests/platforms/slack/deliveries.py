"""Events, commands and presses on their way to an app, tried again as Slack tries again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .faults import Fault
from .ledger import Attempt, Delivered
from .messages import Json
from .team import App

if TYPE_CHECKING:
    from .platform import Platform

_REASONS = {"no_socket": "connection_failed"}


class Deliveries:
    """Sends each by the app's request URL if it has one, else over one of its sockets."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._tasks: set[asyncio.Task[Delivered]] = set()

    def start(self, app: App, kind: str, name: str, payload: Json) -> asyncio.Task[Delivered]:
        """Begin to deliver; only events are tried again, a person presses once more."""
        delivered = Delivered(id=self._platform.team.new_id("Dl"), app=app.id, kind=kind, name=name, payload=payload)
        self._platform.ledger.deliveries.append(delivered)
        task = asyncio.get_running_loop().create_task(self._deliver(app, delivered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _deliver(self, app: App, delivered: Delivered) -> Delivered:
        pauses = (0.0, *self._platform.pace.retries) if delivered.kind == "events_api" else (0.0,)
        reason, ledger = "", self._platform.ledger
        for number, pause in enumerate(pauses):
            if pause:
                await self._platform.clock.sleep(pause)
            attempt = Attempt(number=number, reason=reason, at=self._platform.clock.now())
            delivered.attempts.append(attempt)
            if await self._try(app, delivered, attempt):
                delivered.state = "acked"
                break
            ledger.count(f"unacked:{attempt.outcome}")
            if attempt.outcome == "no_retry":
                break
            reason = _REASONS.get(attempt.outcome, attempt.outcome)
        if delivered.state == "pending":
            delivered.state = "lost"
        ledger.count(f"deliveries:{delivered.state}")
        return delivered

    async def _try(self, app: App, delivered: Delivered, attempt: Attempt) -> bool:
        fault = self._platform.faults.take(delivered.name)
        if fault is not None:
            self._platform.ledger.count(f"fault:{fault.kind}")
        if fault is not None and fault.kind == "delay":
            await self._platform.clock.sleep(fault.seconds)
        if fault is not None and fault.kind == "drop":
            attempt.outcome = "timeout"
            return False
        if fault is None or fault.kind != "duplicate":
            return await self._carry(app, delivered, attempt, fault)
        again = Attempt(number=0, reason="", at=attempt.at)
        delivered.attempts.append(again)
        both = await asyncio.gather(*(self._carry(app, delivered, each, None) for each in (attempt, again)))
        return any(both)

    async def _carry(self, app: App, delivered: Delivered, attempt: Attempt, fault: Fault | None) -> bool:
        carrier = self._platform.posts if app.request_url else self._platform.sockets
        acked = await carrier.carry(app, delivered, attempt, fault)
        attempt.outcome = "acked" if acked else attempt.outcome
        return acked
