"""One search: the index is brought up to date, asked, and what it finds is shown as the journal has it now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from halo_kernel import NotFound, Principal

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
    shown = await asyncio.gather(*(_shown(upkeep, workspace, principal, query, match) for match in matches))
    return Found(
        hits=[hit for hit in shown if hit],
        next=str(behind) if behind else None,
        complete=(complete := asked.done() and asked.result()),
        indexed=1.0 if complete else round(upkeep.share, 3),
    )


async def _shown(upkeep: Upkeep, workspace: str, principal: Principal, query: Query, match: Match) -> Hit | None:
    """Return a match with its text, None when that is gone, or is no match at a closer look."""
    try:
        events = await upkeep.host.sessions.events(
            match.session, workspace=workspace, principal=principal, after=max(match.seq - 1, 0), limit=1
        )
    except NotFound:
        return None
    text = match.title if match.kind == TITLE else "".join(said(event)[0] for event in events)
    pieces = snippet(text, query)
    if not pieces:
        return None
    return Hit(
        session=match.session,
        title=match.title,
        archived=match.archived,
        seq=match.seq,
        at=match.at,
        kind=match.kind,
        snippet=pieces,
    )
