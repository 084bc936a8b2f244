"""A vendor as it stands now: its manifest together with the settings, which may change while the server runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from halo_kernel import ModelError, Secret, Settings

from .endpoint import Endpoint, parse_endpoint
from .family import Family, VendorSettings
from .manifests import Manifest


@dataclass(frozen=True)
class Key:
    """A key and where it comes from, in words."""

    secret: Secret
    source: str


class Vendor:
    """Answers what a call needs to know: where to send it, with which key, for which model."""

    def __init__(self, manifest: Manifest, family: Family, settings: Settings) -> None:
        self.manifest = manifest
        self.family = family
        self._settings = settings
        # A vendor without an address of its own is whatever server the setting `base_url` names.
        self._is_main = manifest.id == family.main or not manifest.default_endpoint
        self._known = family.variables.get(family.main if self._is_main else manifest.id, ())
        self._variables = manifest.variables

    @property
    def settings(self) -> VendorSettings:
        """The plugin's section as it is now."""
        return self.family.read(self._settings)

    @property
    def state(self) -> tuple[object, ...]:
        """All that an offer depends on beside the manifest; equal as long as nothing was changed."""
        return self.settings, *map(os.environ.get, (*self._known, *self._variables))

    @property
    def follows_base_url(self) -> bool:
        """Whether the setting `base_url` says where its server is."""
        return self._is_main and bool(self.settings.base_url or not self.manifest.default_endpoint)

    @property
    def endpoint(self) -> Endpoint:
        """Where its calls go. Raises `BadInput` for a URL that is none."""
        if self.follows_base_url:
            section = self.family.section
            return self._parsed(self.settings.base_url, f"{section}.base_url ({section.upper()}_BASE_URL)")
        return self._parsed(self.manifest.default_endpoint, f"defaultEndpoint of the provider {self.manifest.id}")

    @property
    def is_local(self) -> bool:
        """Whether it may be asked what it serves: a server on this machine."""
        return (self.manifest.local or self.follows_base_url) and self.endpoint.is_loopback

    @property
    def default_model(self) -> str:
        """The model to use when nobody names one, '' if there is none."""
        return next(iter(self.named), self.manifest.default_model_id)

    @property
    def named(self) -> tuple[str, ...]:
        """The models that the settings name."""
        return self.settings.models if self._is_main else ()

    def endpoint_for(self, wish: str | None) -> Endpoint:
        """Return the endpoint that an agent asks for, the vendor's own for None.

        Raises `ModelError` of kind `refused` for one on another server than the vendor's: an agent's file may come from
        a stranger, and must not send keys anywhere.
        """
        if not wish:
            return self.endpoint
        asked = self._parsed(wish, "the agent's model endpoint")
        presets = () if self.follows_base_url else self.manifest.endpoints[1:]
        own = [self.endpoint, *(self._parsed(preset, "endpointPresets") for preset in presets)]
        if all(asked.origin != each.origin for each in own):
            raise ModelError(
                f"{asked.shown} is no endpoint of {self.manifest.label}",
                kind="refused",
                advice=f"Add it to endpointPresets in HALO_HOME/global/models/{self.manifest.id}.yaml if you trust it.",
            )
        return asked

    @property
    def key(self) -> Key | None:
        """The key to send, None when none is set."""
        secret = getattr(self.settings, self._own_field, None) or self.settings.keys.get(self.manifest.id)
        if isinstance(secret, Secret) and secret.reveal():
            return Key(secret, _source(secret, self._known) or f"the setting {self._field}")
        for name in self._variables:
            if value := os.environ.get(name):
                return Key(Secret(value, name), name)
        return None

    @property
    def missing_key(self) -> str:
        """What to do when there is no key, as a sentence."""
        variables = (*self._known, *self._variables)
        first = f"set {variables[0]}, or " if variables else "set "
        return f"no key: {first}{self._field} in HALO_HOME/secrets/settings.yaml"

    @property
    def _own_field(self) -> str:
        return "api_key" if self._is_main else f"{self.manifest.id.replace('-', '_')}_api_key"

    @property
    def _field(self) -> str:
        field = self._own_field if hasattr(self.settings, self._own_field) else f"keys.{self.manifest.id}"
        return f"{self.family.section}.{field}"

    def _parsed(self, url: str, field: str) -> Endpoint:
        wire = self.family.wire
        return parse_endpoint(url, field=field, tails=wire.tails, example=wire.example)


def _source(secret: Secret, variables: Sequence[str]) -> str:
    """Return the environment variable that the key came from, '' for the file."""
    return next((name for name in variables if os.environ.get(name) == secret.reveal()), "")
