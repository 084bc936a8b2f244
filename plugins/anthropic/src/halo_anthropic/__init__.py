"""Models behind the Messages API: Claude, and vendors that speak its wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from halo_kernel import hook

from .settings import SECTION

if TYPE_CHECKING:
    from halo_kernel import ModelProvider, Section, Settings


@hook
def provide_settings() -> Iterable[Section]:
    """Keys of the vendors, and where Anthropic's models are reached."""
    return (SECTION,)


@hook
def provide_models(settings: Settings) -> Iterable[ModelProvider]:
    """One provider a vendor: the shipped and a person's own manifests."""
    from .family import providers

    return providers(settings)
