"""Searching over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from halo_kernel import BadInput, Exchange, Forbidden, Host, Reply, Route

from .finding import parse_cursor
from .searching import Found, search
from .upkeep import Upkeep
from .upkeeps import upkeep_of

_SEARCH = "/api/workspaces/{workspace}/search"
_PAGE, _MOST = 20, 100


class Indexed(Struct, frozen=True):
    """How much of the sessions was indexed by the last look at them, 0 to 1; `busy` tells whether it goes on."""

    indexed: float
    busy: bool


def _limit_of(query: Mapping[str, str]) -> int:
    raw = query.get("limit", str(_PAGE))
    if not re.fullmatch(r"[0-9]{1,3}", raw) or not 1 <= int(raw) <= _MOST:
        raise BadInput(f"limit must be a whole number from 1 to {_MOST}, not {raw!r}", field="limit")
    return int(raw)


def _state(upkeep: Upkeep) -> Indexed:
    return Indexed(round(upkeep.share, 3), upkeep.busy)


@dataclass(frozen=True)
class _Searches:
    host: Host

    async def search(self, exchange: Exchange) -> Found:
        query, workspace = exchange.query, exchange.params["workspace"]
        cursor = parse_cursor(query["after"]) if query.get("after") else None
        limit = _limit_of(query)
        upkeep = await upkeep_of(self.host, workspace)
        return await search(upkeep, workspace, exchange.principal, query.get("q", ""), cursor, limit)

    async def show(self, exchange: Exchange) -> Indexed:
        return _state(await upkeep_of(self.host, exchange.params["workspace"]))

    async def rebuild(self, exchange: Exchange) -> Reply:
        if exchange.principal.access != "full":
            raise Forbidden("making the index anew takes full access")
        upkeep = await upkeep_of(self.host, exchange.params["workspace"])
        await upkeep.rebuild()
        return Reply(body=_state(upkeep), status=202)


def search_routes(host: Host) -> list[Route]:
    """Return the routes of search."""
    on = _Searches(host)
    index = f"{_SEARCH}/index"
    return [
        Route(method="GET", path=_SEARCH, handler=on.search, reply=Found, summary="Search the texts of all sessions"),
        Route(method="GET", path=index, handler=on.show, reply=Indexed, summary="Tell how much is indexed"),
        Route(method="POST", path=index, handler=on.rebuild, reply=Indexed, summary="Make the index anew"),
    ]
