"""Taking out for good what was said in a session."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from halo_kernel import Exchange, Forbidden, Host, Route

from .sessions import SESSION
from .streams import EventView, view_event


class EraseRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The first and the last event, by `seq`, of what is taken out: whole turns."""

    start: int
    end: int


@dataclass(frozen=True)
class _Erase:
    host: Host

    async def erase(self, exchange: Exchange) -> EventView:
        assert isinstance(exchange.body, EraseRequest)
        if exchange.principal.access != "full":
            raise Forbidden("erasing takes full access")
        event = await self.host.sessions.erase(
            exchange.params["session"],
            workspace=exchange.params["workspace"],
            principal=exchange.principal,
            start=exchange.body.start,
            end=exchange.body.end,
        )
        return view_event(event)


def erase_routes(host: Host) -> list[Route]:
    """Return the route that erases."""
    return [
        Route(
            method="POST",
            path=SESSION + "/erase",
            handler=_Erase(host).erase,
            request=EraseRequest,
            reply=EventView,
            summary="Take out for good what a range of events says, whole turns of them",
        )
    ]
