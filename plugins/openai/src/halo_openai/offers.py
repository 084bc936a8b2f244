"""What a vendor can answer with now, and why or why not, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import BadInput, Offer
from halo_lib_wire.vendors import KEYED, LOCAL, Manifest, Vendor, distinct, keyed_offers, not_ready, ready

from .probes import Found, Probes

CUSTOM = Manifest(id="custom", display_name="the server at openai.base_url", default_endpoint="")


class Offers:
    """What one vendor offers, put into words again only when something it depends on has changed."""

    def __init__(self, vendor: Vendor, probes: Probes) -> None:
        self._vendor = vendor
        self._probes = probes
        self._kept: tuple[object, Sequence[Offer]] = (None, ())

    async def now(self) -> Sequence[Offer]:
        """Return the offers, the default model first. Only a server on this machine is asked anything."""
        vendor = self._vendor
        if vendor.follows_base_url and not (_is_custom(vendor) and vendor.settings.base_url):
            return ()
        try:
            found = await self._probes.of(vendor) if vendor.is_local else None
        except BadInput as error:
            return (not_ready(vendor, error.message),)
        known = (vendor.state, found)
        if self._kept[0] != known:
            self._kept = known, tuple(_offered(vendor, found))
        return self._kept[1]

    async def close(self) -> None:
        """End a round of questions that still runs."""
        await self._probes.close()


def _offered(vendor: Vendor, found: Found | None) -> Sequence[Offer]:
    if found is not None:
        return _local(vendor, found)
    return _custom(vendor) if _is_custom(vendor) else keyed_offers(vendor)


def _is_custom(vendor: Vendor) -> bool:
    """Tell whether this is the server at `base_url`: `openai` serves it too, but it is offered once, as `custom`."""
    return vendor.manifest.id == CUSTOM.id


def _custom(vendor: Vendor) -> Sequence[Offer]:
    """A server elsewhere is not asked: it can answer once it is known which model to name."""
    if vendor.default_model:
        return keyed_offers(vendor)
    said = "openai.base_url is set, but no model: set OPENAI_MODEL, or openai.model in the settings"
    return [not_ready(vendor, said)]


def _local(vendor: Vendor, found: Found) -> Sequence[Offer]:
    where = vendor.endpoint.shown
    custom = _is_custom(vendor)
    named = vendor.default_model if custom else ""
    if not found.answers and named:
        # A person named this very model: it fails where they see it, and nothing else answers in its place.
        return [ready(vendor, named, f"named in the settings, though nothing answers at {where} now")]
    if not found.answers:
        start = vendor.manifest.start or "start it"
        return [not_ready(vendor, f"nothing answers at {where}: {start}")]
    if found.models is None and not named:
        return [not_ready(vendor, f"what answers at {where} lists no models: " + _other(custom))]
    served = {model.id: model.context_window for model in found.models or ()}
    names = distinct([named, *served])
    if not names:
        return [not_ready(vendor, f"it answers at {where}, but has no model: {vendor.manifest.pull or 'load one'}")]
    rank = KEYED if custom else LOCAL
    reason = f"answers at {where}"
    return [ready(vendor, name, reason, rank=rank, context=served.get(name, 0)) for name in names]


def _other(custom: bool) -> str:
    return "set OPENAI_MODEL, or openai.model in the settings" if custom else "another program uses its port"
