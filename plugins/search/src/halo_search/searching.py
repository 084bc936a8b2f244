"""One search: the index is brought up to date, asked, and what it finds is shown as the journal has it now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from halo_kernel import Event, Host, NotFound, Principal

from .entries import TITLE, said
from .finding import Cursor, Match, find
from .query import Query, parse_query
from .snippets import Piece, snippet
from .upkeep import Upkeep

_PATIENCE = 2.0  # seconds that a search waits for what is not indexed yet


class Hit(Struct, frozen=True, kw_only=True):
    """Event `seq` of a session that matches, or its title, with 0; `kind` is title, user, assistant, tool or notice."""

    session: str
    title: str
    archived: bool
    seq: int
    at: int
    kind: str
    snippet: Sequence[Piece]


class Found(Struct, frozen=True, kw_only=True):
    """Hits, best first; `next` is where the next page begins, null at the end.

    When not `complete`, the index is being made: it has `indexed` of the sessions, 0 to 1, and there may be more.
    """

    hits: Sequence[Hit]
    next: str | None
    complete: bool
    indexed: float


async def search(
    upkeep: Upkeep, workspace: str, principal: Principal, q: str, after: Cursor | None, limit: int
) -> Found:
    """Return what matches of the principal's sessions. Raises `BadInput`, `StorageUnavailable`."""
    query = parse_query(q)
    asked = upkeep.caught_up()
    await asyncio.wait({asked}, timeout=_PATIENCE)
    cursor = after or Cursor(now=upkeep.host.clock.now())
    database = (await upkeep.index()).database
    matches, behind = await database.read(lambda tx: find(tx, query, principal, cursor=cursor, limit=limit))
    events = await asyncio.gather(*(_event(upkeep.host, workspace, principal, match) for match in matches))
    complete = asked.done() and asked.result()
    return Found(
        hits=await asyncio.to_thread(_hits, query, matches, events),  # long texts take their time
        next=str(behind) if behind else None,
        complete=complete,
        indexed=1.0 if complete else round(upkeep.share, 3),
    )


async def _event(host: Host, workspace: str, principal: Principal, match: Match) -> Event | None:
    """Return the event that matches, of a title any of its session; None when the session is gone."""
    after = max(match.seq - 1, 0)
    try:
        events = await host.sessions.events(
            match.session, workspace=workspace, principal=principal, after=after, limit=1
        )
    except NotFound:
        return None
    return next(iter(events), None)


def _hits(query: Query, matches: Sequence[Match], events: Sequence[Event | None]) -> Sequence[Hit]:
    """Return the matches with their texts, without those that are gone, or are no match at a closer look."""
    found: list[Hit] = []
    for match, event in zip(matches, events, strict=True):
        text = match.title if match.kind == TITLE else said(event)[0] if event else ""
        if event and (pieces := snippet(text, query)):
            found.append(
                Hit(
                    session=match.session,
                    title=match.title,
                    archived=match.archived,
                    seq=match.seq,
                    at=match.at,
                    kind=match.kind,
                    snippet=pieces,
                )
            )
    return found
