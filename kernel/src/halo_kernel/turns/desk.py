"""What a turn works with, and the one way it writes: commit, then fold, then tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..contracts import Clock, Database, Lease, Session, Tool, Tx
from ..folds import History
from ..hooks import Hooks
from ..journal import Feed
from ..models import Models
from ..records import Event
from ..scopes import Scope
from ..secrets import Redactor


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a turn: seconds without model data, attempts a model call, model calls a turn, characters a result."""

    idle_timeout: float = 600.0
    max_attempts: int = 5
    max_steps: int = 100
    result_chars: int = 8000


@dataclass(kw_only=True)
class Place:
    """What the sessions of one workspace share. `mask` takes known secrets out of a text."""

    database: Database
    feed: Feed
    hooks: Hooks
    models: Models
    clock: Clock
    boot: str
    limits: Limits
    mask: Redactor


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Everything a turn needs of its session.

    `stirred` is set whenever something new may wait in the inbox; `told` gets every event after its commit.
    """

    place: Place
    session: Session
    lease: Lease
    history: History
    tools: Mapping[str, Tool]
    stirred: asyncio.Event
    scope: Scope
    told: Callable[[Event], None]

    async def commit(self, fn: Callable[[Tx], tuple[Event, ...]]) -> tuple[Event, ...]:
        """Write under the lease, fold what was written into the history, and tell followers.

        A caller that is cancelled meanwhile still waits for the commit: history and journal never differ.
        """
        lease = self.lease

        def fenced(tx: Tx) -> tuple[Event, ...]:
            lease.check(tx)
            return fn(tx)

        write = asyncio.ensure_future(self.place.database.write(fenced))
        try:
            events = await asyncio.shield(write)
        except asyncio.CancelledError:
            await asyncio.wait({write})
            if not write.cancelled() and write.exception() is None:
                self._tell(write.result())
            raise
        self._tell(events)
        return events

    def _tell(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self.history.apply(event)
            self.told(event)
        self.place.feed.publish(events)
