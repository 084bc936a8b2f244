"""The vendors of one plugin: what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from halo_kernel import Secret, Settings

from .wire import Wire


class VendorSettings(Protocol):
    """What a plugin's settings say about its vendors; a vendor's own key is the field `<id>_api_key`."""

    @property
    def base_url(self) -> str:
        """Where the main vendor is reached, '' for its own address."""
        ...

    @property
    def api_key(self) -> Secret | None:
        """The main vendor's key."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the main vendor's models beside the listed ones, the one to use first."""
        ...

    @property
    def keys(self) -> Mapping[str, Secret]:
        """Keys of vendors with a manifest of a person's own, by its id."""
        ...


@dataclass(frozen=True, kw_only=True)
class Family:
    """What the vendors of one plugin share.

    `read` gives the values of the settings section `section` as they are now; `package` holds the shipped manifests in
    `vendors/`, with the ids `order`; `main` is the vendor that `base_url`, `api_key` and `models` are of; `variables`
    are those of each vendor's key, the first being the one that people are told to set.
    """

    section: str
    read: Callable[[Settings], VendorSettings]
    wire: Wire
    package: str
    order: tuple[str, ...]
    main: str
    variables: Mapping[str, tuple[str, ...]]
