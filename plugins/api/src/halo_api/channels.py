"""The channels that are loaded: what their accounts need, and a try of such an account that is not stored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from msgspec import Struct

from halo_kernel import Account, AccountField, Exchange, Forbidden, Host, Route

from .probes import Probes

CHANNELS = "/api/channels"


class ChannelShown(Struct, frozen=True, kw_only=True):
    """A channel. `fields`: what its accounts need, null if it does not say; `token`: whether they are called by one."""

    type: str
    fields: Sequence[AccountField] | None
    token: bool


class ChannelList(Struct, frozen=True):
    """Channels, by type."""

    channels: Sequence[ChannelShown]


class ProbeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an account would be made of."""

    id: str = ""
    config: dict[str, Any] = {}
    secrets: dict[str, str | None] = {}


class ProbeAnswer(Struct, frozen=True, kw_only=True):
    """What the platform says that the account is."""

    id: str
    label: str


@dataclass(frozen=True)
class _Channels:
    host: Host
    probes: Probes

    async def list(self, exchange: Exchange) -> ChannelList:
        refuse_less(exchange)
        called = token_types(self.host)
        types = sorted(self.host.accounts.channels)
        return ChannelList(
            [ChannelShown(type=each, fields=self.probes.fields(each), token=each in called) for each in types]
        )

    async def probe(self, exchange: Exchange) -> ProbeAnswer:
        refuse_less(exchange)
        wanted = exchange.body
        assert isinstance(wanted, ProbeRequest)
        bare = Account(type=exchange.params["type"], id=wanted.id, workspace="")
        found, _ = await self.probes.settle(bare, {}, wanted.config, wanted.secrets)
        return ProbeAnswer(id=found.id, label=found.label)


def token_types(host: Host) -> Collection[str]:
    """Return the types whose accounts have a token: those that a route asks for one."""
    routes = cast("Sequence[tuple[str, Route]]", host.lookup("routes", "all"))
    return {kind for _, route in routes for scheme, _, kind in [route.auth.partition(":")] if scheme == "account"}


def refuse_less(exchange: Exchange) -> None:
    """Raise `Forbidden` for somebody with less than full access."""
    if exchange.principal.access != "full":
        raise Forbidden("channels and their accounts, which are everybody's way in, take full access")


def channel_routes(host: Host) -> list[Route]:
    """Return the routes of channels."""
    on = _Channels(host, Probes(host))
    return [
        Route(
            method="GET",
            path=CHANNELS,
            handler=on.list,
            reply=ChannelList,
            summary="List the channels that are loaded, with what their accounts need",
        ),
        Route(
            method="POST",
            path=CHANNELS + "/{type}/probe",
            handler=on.probe,
            request=ProbeRequest,
            reply=ProbeAnswer,
            summary="Ask a platform about an account that there could be, and store nothing",
        ),
    ]
