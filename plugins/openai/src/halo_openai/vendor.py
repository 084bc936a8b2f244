"""A vendor as it stands now: its manifest together with the settings, which may change while the server runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from halo_kernel import ModelError, Secret, Settings

from .endpoint import Endpoint, parse_endpoint
from .manifests import Manifest
from .settings import VARIABLES, OpenAISettings

CUSTOM = Manifest(id="custom", display_name="the server at openai.base_url", default_endpoint="")


@dataclass(frozen=True)
class Key:
    """A key and where it comes from, in words."""

    secret: Secret
    source: str


class Vendor:
    """Answers what a call needs to know: where to send it, with which key, for which model."""

    def __init__(self, manifest: Manifest, settings: Settings) -> None:
        self.manifest = manifest
        self._settings = settings
        self._is_ours = manifest.id in ("openai", CUSTOM.id)
        self._known = VARIABLES.get("openai" if self._is_ours else manifest.id, ())
        self._variables = manifest.variables

    @property
    def settings(self) -> OpenAISettings:
        """The section `openai` as it is now."""
        return self._settings.of(OpenAISettings)

    @property
    def state(self) -> tuple[object, ...]:
        """All that an offer depends on beside the manifest; equal as long as nothing was changed."""
        return self.settings, *map(os.environ.get, (*self._known, *self._variables))

    @property
    def follows_base_url(self) -> bool:
        """Whether the setting `base_url` says where its server is: always for `custom`, for `openai` if it is set."""
        return self.manifest.id == CUSTOM.id or (self.manifest.id == "openai" and bool(self.settings.base_url))

    @property
    def endpoint(self) -> Endpoint:
        """Where its calls go. Raises `BadInput` for a URL that is none."""
        if self.follows_base_url:
            return parse_endpoint(self.settings.base_url, field="openai.base_url (OPENAI_BASE_URL)")
        return parse_endpoint(
            self.manifest.default_endpoint, field=f"defaultEndpoint of the provider {self.manifest.id}"
        )

    @property
    def is_local(self) -> bool:
        """Whether it may be asked what it serves: a server on this machine."""
        return (self.manifest.local or self.follows_base_url) and self.endpoint.is_loopback

    @property
    def default_model(self) -> str:
        """The model to use when nobody names one, '' if there is none."""
        named = self.settings.model if self._is_ours else ""
        return named or self.manifest.default_model_id

    def endpoint_for(self, wish: str | None) -> Endpoint:
        """Return the endpoint that an agent asks for, the vendor's own for None.

        Raises `ModelError` of kind `refused` for one on another server than the vendor's: an agent's file may come from
        a stranger, and must not send keys anywhere.
        """
        if not wish:
            return self.endpoint
        asked = parse_endpoint(wish, field="the agent's model endpoint")
        own = [self.endpoint] if self.follows_base_url else [self.endpoint, *map(_preset, self.manifest.endpoints[1:])]
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
        field = "api_key" if self._is_ours else f"{self.manifest.id}_api_key"
        secret = getattr(self.settings, field, None) or self.settings.keys.get(self.manifest.id)
        if isinstance(secret, Secret) and secret.reveal():
            return Key(secret, _source(secret, self._known) or f"the setting openai.{self._field(field)}")
        for name in self._variables:
            if value := os.environ.get(name):
                return Key(Secret(value, name), name)
        return None

    @property
    def missing_key(self) -> str:
        """What to do when there is no key, as a sentence."""
        variables = (*self._known, *self._variables)
        field = self._field("api_key" if self._is_ours else f"{self.manifest.id}_api_key")
        first = f"set {variables[0]}, or " if variables else "set "
        return f"no key: {first}openai.{field} in HALO_HOME/secrets/settings.yaml"

    def _field(self, field: str) -> str:
        return field if field in OpenAISettings.__struct_fields__ else f"keys.{self.manifest.id}"


def _preset(url: str) -> Endpoint:
    return parse_endpoint(url, field="endpointPresets")


def _source(secret: Secret, variables: Sequence[str]) -> str:
    """Return the environment variable that the key came from, '' for the file."""
    return next((name for name in variables if os.environ.get(name) == secret.reveal()), "")
