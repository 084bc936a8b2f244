"""What models are offered, and which one a new turn would use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from msgspec import Struct

from halo_kernel import Exchange, Host, Kernel, Offer, Route


class ModelsStatus(Struct, frozen=True, kw_only=True):
    """The models, best first; `chosen` answers a new turn, `reason` says why it, or why none."""

    models: Sequence[Offer]
    chosen: str | None
    reason: str


@dataclass(frozen=True)
class _Models:
    host: Host

    async def answer(self, exchange: Exchange) -> ModelsStatus:
        offers, chosen, reason = await cast("Kernel", self.host.lookup("kernel", "")).models()
        return ModelsStatus(models=offers, chosen=chosen.model if chosen else None, reason=reason)


def model_routes(host: Host) -> list[Route]:
    """Return the route of models."""
    handler, summary = _Models(host).answer, "List models and the choice"
    return [Route(method="GET", path="/api/models", handler=handler, summary=summary, reply=ModelsStatus)]
