"""All providers of this plugin, over one pool of connections."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Clock, ModelProvider, Settings, SystemClock
from halo_lib_wire.vendors import (
    Broken,
    BrokenProvider,
    Family,
    Manifest,
    Transport,
    Vendor,
    VendorProvider,
    load_manifests,
)

from .offers import CUSTOM, Offers
from .probes import Probes
from .settings import VARIABLES, OpenAISettings
from .wire import ChatWire

FAMILY = Family(
    section="openai",
    read=lambda settings: settings.of(OpenAISettings),
    wire=ChatWire(),
    package=__name__.rpartition(".")[0],
    order=("openai", "kimi", "deepseek", "hunyuan", "doubao", "zhipu", "ollama", "lmstudio", "vllm"),
    main="openai",
    variables=VARIABLES,
)


def providers(settings: Settings, *, clock: Clock | None = None) -> Sequence[ModelProvider]:
    """Return a provider for every vendor; the order is that of the automatic choice among equals."""
    manifests = load_manifests(settings.home / "global" / "models", FAMILY)
    vendors = [Vendor(each, FAMILY, settings) for each in (CUSTOM, *manifests) if isinstance(each, Manifest)]
    transport, clock = Transport(), clock or SystemClock()
    probes = Probes(vendors, transport, clock)
    working = [
        VendorProvider(vendor, offering=Offers(vendor, probes), transport=transport, clock=clock) for vendor in vendors
    ]
    broken = [BrokenProvider(each.id, each.error) for each in manifests if isinstance(each, Broken)]
    return [*working, *broken]
