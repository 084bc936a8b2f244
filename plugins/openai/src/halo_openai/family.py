"""All providers of this plugin, over one pool of connections."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import Clock, ModelProvider, Settings, SystemClock

from .manifests import Broken, Manifest, load_manifests
from .probes import Probes
from .provider import BrokenProvider, ChatProvider
from .transport import Transport
from .vendor import CUSTOM, Vendor


def providers(settings: Settings, *, clock: Clock | None = None) -> Sequence[ModelProvider]:
    """Return a provider for every vendor; the order is that of the automatic choice among equals."""
    manifests = load_manifests(settings.home / "global" / "models")
    vendors = [Vendor(each, settings) for each in (CUSTOM, *manifests) if isinstance(each, Manifest)]
    transport, clock = Transport(), clock or SystemClock()
    probes = Probes(vendors, transport, clock)
    working = [ChatProvider(vendor, transport=transport, probes=probes, clock=clock) for vendor in vendors]
    broken = [BrokenProvider(each.id, each.error) for each in manifests if isinstance(each, Broken)]
    return [*working, *broken]
