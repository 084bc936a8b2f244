"""What a vendor can answer with now, and why or why not, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import BadInput, Offer

from .probes import Found, Probes
from .vendor import CUSTOM, Vendor

_KEYED, _LOCAL = 10, 20


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
            return (_not(vendor, error.message),)
        known = (vendor.state, found)
        if self._kept[0] != known:
            self._kept = known, tuple(_offered(vendor, found))
        return self._kept[1]


def _offered(vendor: Vendor, found: Found | None) -> Sequence[Offer]:
    if found is not None:
        return _local(vendor, found)
    return _custom(vendor) if _is_custom(vendor) else _keyed(vendor)


def _is_custom(vendor: Vendor) -> bool:
    """Tell whether this is the server at `base_url`: `openai` serves it too, but it is offered once, as `custom`."""
    return vendor.manifest.id == CUSTOM.id


def _keyed(vendor: Vendor) -> Sequence[Offer]:
    key = vendor.key
    if key is None:
        return [_not(vendor, vendor.missing_key)]
    listed = [model.id for model in vendor.manifest.models]
    default = vendor.default_model
    names = _distinct([default, *listed])
    if not names:
        return [_not(vendor, "its manifest names no model: set defaultModelId")]
    return [_ready(vendor, name, f"uses the key in {key.source}", _KEYED) for name in names]


def _custom(vendor: Vendor) -> Sequence[Offer]:
    """A server elsewhere is not asked: it can answer once it is known which model to name."""
    if not vendor.default_model:
        return [_not(vendor, "openai.base_url is set, but no model: set OPENAI_MODEL, or openai.model in the settings")]
    key = vendor.key
    reason = f"uses {vendor.endpoint.shown} with " + (f"the key in {key.source}" if key else "no key")
    return [_ready(vendor, vendor.default_model, reason, _KEYED)]


def _local(vendor: Vendor, found: Found) -> Sequence[Offer]:
    where = vendor.endpoint.shown
    custom = _is_custom(vendor)
    named = vendor.default_model if custom else ""
    if not found.answers and named:
        # A person named this very model: it fails where they see it, and nothing else answers in its place.
        return [_ready(vendor, named, f"named in the settings, though nothing answers at {where} now", _KEYED)]
    if not found.answers:
        start = vendor.manifest.start or "start it"
        return [_not(vendor, f"nothing answers at {where}: {start}")]
    if found.models is None and not named:
        return [_not(vendor, f"what answers at {where} lists no models: " + _other(custom))]
    served = {model.id: model.context_window for model in found.models or ()}
    names = _distinct([named, *served])
    if not names:
        return [_not(vendor, f"it answers at {where}, but has no model: {vendor.manifest.pull or 'load one'}")]
    rank = _KEYED if custom else _LOCAL
    reason = f"answers at {where}"
    return [_ready(vendor, name, reason, rank, context=served.get(name, 0)) for name in names]


def _other(custom: bool) -> str:
    return "set OPENAI_MODEL, or openai.model in the settings" if custom else "another program uses its port"


def _distinct(names: Sequence[str]) -> list[str]:
    return [name for at, name in enumerate(names) if name and name not in names[:at]]


def _ready(vendor: Vendor, name: str, reason: str, rank: int, *, context: int = 0) -> Offer:
    manifest, model = vendor.manifest, vendor.manifest.model(name)
    return Offer(
        model=f"{manifest.id}/{name}",
        ready=True,
        reason=reason,
        rank=rank,
        context_window=context or model.context_window or manifest.context_window,
        max_tokens=model.max_output_tokens,
        label=model.display_name or name,
    )


def _not(vendor: Vendor, reason: str) -> Offer:
    return Offer(
        model=f"{vendor.manifest.id}/{vendor.default_model}",
        ready=False,
        reason=reason,
        rank=_LOCAL if vendor.manifest.local else _KEYED,
        label=vendor.manifest.label,
    )
