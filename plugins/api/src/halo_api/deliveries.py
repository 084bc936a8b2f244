"""What a workspace owes to others: a look at it, and another attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from msgspec import Struct

from halo_kernel import Delivery, Exchange, Forbidden, Host, PartState, Route

from .query import MOST, choices_of, flag_of, limit_of, number_of

DELIVERIES = "/api/workspaces/{workspace}/deliveries"
_PAGE = 100


class DeliveryList(Struct, frozen=True):
    """Deliveries, newest first."""

    deliveries: Sequence[Delivery]


@dataclass(frozen=True)
class _Deliveries:
    host: Host

    async def list(self, exchange: Exchange) -> DeliveryList:
        workspace, limit = _workspace(exchange), limit_of(exchange.query, _PAGE)
        states = choices_of(exchange.query, "state", get_args(PartState))
        found = await self.host.outbox.list(
            workspace=workspace,
            session=exchange.query.get("session") or None,
            unsettled=flag_of(exchange.query, "unsettled"),
            limit=MOST if states else limit,
        )
        if states:
            found = [each for each in found if any(part.state in states for part in each.parts)][:limit]
        return DeliveryList(found)

    async def retry(self, exchange: Exchange) -> Delivery:
        workspace = _workspace(exchange)
        return await self.host.outbox.retry(number_of(exchange, "delivery"), workspace=workspace)


def _workspace(exchange: Exchange) -> str:
    """Return the workspace, whose deliveries of all sessions are for somebody with full access only."""
    if exchange.principal.access != "full":
        raise Forbidden("deliveries, which are those of all sessions, take full access")
    return exchange.params["workspace"]


def delivery_routes(host: Host) -> list[Route]:
    """Return the routes of deliveries."""
    on = _Deliveries(host)
    return [
        Route(
            method="GET",
            path=DELIVERIES,
            handler=on.list,
            reply=DeliveryList,
            summary="List what is or was owed to others, with what became of each part",
        ),
        Route(
            method="POST",
            path=DELIVERIES + "/{delivery}/retry",
            handler=on.retry,
            reply=Delivery,
            summary="Send the failed and uncertain parts of a delivery again",
        ),
    ]
