"""The channel `web`: its accounts have a token each, and whoever has one talks over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from halo_kernel import Account, AccountField, Clock, Door, PreparedInput, ServerEvent

CHANNEL = "web"
_OWN = f"{CHANNEL}:"


@dataclass(kw_only=True)
class WebChannel:
    """Accounts that are called: nothing is received but by the routes, and answers are read from the journal."""

    clock: Clock
    type: str = CHANNEL
    silence: float | None = None
    fields: Sequence[AccountField] = ()
    _changes: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])

    async def run(self, account: Account, door: Door) -> None:
        """Be ready until the account changes, which ends its open streams."""
        changed = self._changes[account.id] = asyncio.Event()
        door.heard()
        try:
            await asyncio.Event().wait()
        finally:
            changed.set()

    async def probe(self, account: Account, secrets: Mapping[str, str]) -> Account:
        """Return the account with an id of its own."""
        return account if account.id else replace(account, id=self.clock.new_id(64)[:8])

    def guarded(self, account: str, events: AsyncGenerator[ServerEvent]) -> AsyncIterator[ServerEvent]:
        """Return a stream that ends early when its account changes or goes."""
        changed = self._changes.get(account)
        return events if changed is None else _until(events, changed)


async def _until(events: AsyncGenerator[ServerEvent], changed: asyncio.Event) -> AsyncGenerator[ServerEvent]:
    change = asyncio.create_task(changed.wait(), name="web.changed")
    step: asyncio.Task[ServerEvent | None] | None = None
    try:
        while True:
            step = asyncio.create_task(_next(events), name="web.stream")
            await asyncio.wait({step, change}, return_when=asyncio.FIRST_COMPLETED)
            if change.done() or (event := step.result()) is None:
                return
            yield event
    finally:
        change.cancel()
        if step is not None and not step.done():
            step.cancel()
            with suppress(asyncio.CancelledError):
                await step
        await events.aclose()


async def _next(events: AsyncGenerator[ServerEvent]) -> ServerEvent | None:
    return await anext(events, None)


def with_channel(batch: Sequence[PreparedInput]) -> Sequence[PreparedInput]:
    """Tell the model which account a message came through."""
    return [
        replace(row, content=f"[channel: {CHANNEL} | account: {row.sender.removeprefix(_OWN)}]\n\n{row.content}")
        if row.sender.startswith(_OWN)
        else row
        for row in batch
    ]
