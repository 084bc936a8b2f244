"""What a vendor with a key can answer with, in sentences that say why or why not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from halo_kernel import BadInput, Offer

from .vendor import Vendor

KEYED, LOCAL = 10, 20


class KeyedOffers:
    """What one vendor elsewhere offers, put into words again only when something it depends on has changed."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self._kept: tuple[object, Sequence[Offer]] = (None, ())

    async def now(self) -> Sequence[Offer]:
        """Return the offers, the default model first. Nobody is asked."""
        if self._kept[0] != self._vendor.state:
            self._kept = self._vendor.state, tuple(keyed_offers(self._vendor))
        return self._kept[1]

    async def close(self) -> None:
        """There is nothing to end."""


def keyed_offers(vendor: Vendor) -> Sequence[Offer]:
    """Return what a vendor elsewhere offers: its models if there is a key, or a server of one's own that needs none.

    That there is none to be sent is believed only where the server's models are named, too.
    """
    key = vendor.key
    try:
        where = f"{vendor.endpoint.shown} with " if vendor.follows_base_url else ""
    except BadInput as error:
        return [not_ready(vendor, error.message)]
    if key is None and not (where and vendor.named):
        return [not_ready(vendor, vendor.missing_key)]
    names = distinct([*vendor.named, vendor.default_model, *(model.id for model in vendor.manifest.models)])
    if not names:
        return [not_ready(vendor, "its manifest names no model: set defaultModelId")]
    reason = f"uses {where}" + (f"the key in {key.source}" if key else "no key")
    return [ready(vendor, name, reason) for name in names]


def ready(vendor: Vendor, name: str, reason: str, *, rank: int = KEYED, context: int = 0) -> Offer:
    """Return the offer of a model that can answer; `context` in tokens is what its server says, 0 if it does not."""
    manifest, model = vendor.manifest, vendor.manifest.model(name)
    return Offer(
        model=f"{manifest.id}/{name}",
        ready=True,
        reason=reason,
        rank=rank,
        context_window=context or model.context_window or manifest.context_window,
        max_tokens=model.max_output_tokens,
        label=model.display_name or name,
        credential=vendor.key.source if vendor.key else "",
        price=model.price.offered() if model.price and not vendor.follows_base_url else None,
    )


def not_ready(vendor: Vendor, reason: str) -> Offer:
    """Return the offer of a vendor that cannot answer."""
    return Offer(
        model=f"{vendor.manifest.id}/{vendor.default_model}",
        ready=False,
        reason=reason,
        rank=LOCAL if vendor.manifest.local else KEYED,
        label=vendor.manifest.label,
    )


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names in order, each once, without empty ones."""
    return [name for name in dict.fromkeys(names) if name]
