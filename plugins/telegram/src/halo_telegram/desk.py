"""All that one server has of this plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from halo_kernel import Host

from .bots import Bots
from .channel import Telegram
from .commands import Menu
from .dispatcher import Outgoing
from .presence import Presence
from .webhook import Webhooks


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The parts, which share their clients."""

    host: Host
    bots: Bots
    webhooks: Webhooks
    channel: Telegram
    outgoing: Outgoing
    presence: Presence
    menu: Menu

    @classmethod
    def of(cls, host: Host) -> Self:
        """Make the parts for a host."""
        bots, webhooks = Bots(host), Webhooks(host)
        menu = Menu(bots)
        return cls(
            host=host,
            bots=bots,
            webhooks=webhooks,
            channel=Telegram(host, webhooks, menu),
            outgoing=Outgoing(bots),
            presence=Presence(bots),
            menu=menu,
        )
