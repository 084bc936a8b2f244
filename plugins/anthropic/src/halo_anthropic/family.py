"""All providers of this plugin, over one pool of connections."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Clock, ModelProvider, Settings, SystemClock
from halo_lib_wire.vendors import (
    Broken,
    BrokenProvider,
    Family,
    KeyedOffers,
    Transport,
    Vendor,
    VendorProvider,
    load_manifests,
)

from .settings import VARIABLES, AnthropicSettings
from .wire import MessagesWire


def family(settings: Settings) -> Family:
    """Return what the vendors of this plugin share; the order is that of the automatic choice among equals."""
    return Family(
        section="anthropic",
        read=lambda settings: settings.of(AnthropicSettings),
        wire=MessagesWire(lambda: settings.of(AnthropicSettings).max_tokens),
        package=__name__.rpartition(".")[0],
        order=("anthropic", "minimax", "qwen", "mimo-token-plan-china"),
        main="anthropic",
        variables=VARIABLES,
    )


def providers(settings: Settings, *, clock: Clock | None = None) -> Sequence[ModelProvider]:
    """Return a provider for every vendor."""
    ours, transport, clock = family(settings), Transport(), clock or SystemClock()
    found: list[ModelProvider] = []
    for manifest in load_manifests(settings.home / "global" / "models", ours):
        if isinstance(manifest, Broken):
            found.append(BrokenProvider(manifest.id, manifest.error))
            continue
        vendor = Vendor(manifest, ours, settings)
        found.append(VendorProvider(vendor, offering=KeyedOffers(vendor), transport=transport, clock=clock))
    return found
