"""What a turn works with, and the one way it writes: commit, then fold, then tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .. import contracts
from ..contracts import Clock, Database, Lease, Tool, Tx
from ..folds import History
from ..hooks import Hooks
from ..journal import Feed, append
from ..models import Caller, Models
from ..records import Body, Event, TurnEnded
from ..repair import Shown
from ..reports import settle
from ..secrets import Redactor
from ..settings import AgentSettings, SessionSettings


@dataclass(kw_only=True)
class Place:
    """What the sessions of one workspace share. `mask` takes known secrets out of a text."""

    database: Database
    feed: Feed
    hooks: Hooks
    models: Models
    caller: Caller
    clock: Clock
    boot: str
    mask: Redactor
    limits: SessionSettings
    agents: AgentSettings
    result_chars: int


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Everything a turn needs of its session.

    `stirred` is set whenever something new may wait in the inbox.
    """

    place: Place
    session: contracts.Session
    lease: Lease
    history: History
    shown: Shown
    tools: Mapping[str, Tool]
    stirred: asyncio.Event
    turn: str = ""

    async def commit(self, fn: Callable[[Tx], Sequence[Body] | None], *, at: int | None = None) -> tuple[Event, ...]:
        """Journal what `fn` returns under the lease, `at` a time or now, and tell the session and its followers.

        If there is anything, what was streamed is no longer beside it; the end of a turn settles what its tree owes. A
        caller that is cancelled meanwhile still waits for the commit: history and journal never differ.
        """
        session, at = self.session.info.id, self.place.clock.now() if at is None else at
        streamed = self.place.feed.partial(session) is not None

        def fenced(tx: Tx) -> tuple[Event, ...]:
            self.lease.check(tx)
            bodies = fn(tx)
            if not bodies:
                return ()
            if streamed:
                tx.execute("DELETE FROM partials WHERE session = ?", (session,))
            events = append(tx, session, bodies, at=at, turn=self.turn)
            if isinstance(end := bodies[-1], TurnEnded):
                settle(tx, session, at=at, turn=self.turn if end.outcome == "succeeded" else "")
            return events

        write = asyncio.ensure_future(self._write(fenced))
        try:
            return await asyncio.shield(write)
        except asyncio.CancelledError:
            await asyncio.wait({write})
            raise

    async def _write(self, fn: Callable[[Tx], tuple[Event, ...]]) -> tuple[Event, ...]:
        events = await self.place.database.write(fn)
        for event in events:
            self.place.feed.forget_partial(event.session)
            self.session.told(event)
        self.place.feed.publish(events)
        return events
