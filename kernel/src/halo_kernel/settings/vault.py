"""Where secrets lie: in a file that only its owner can read, or in the system's keyring, with a reference in the file.

Keyring: https://keyring.readthedocs.io
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import quote

from msgspec import json

from ..errors import BadInput
from ..records import Secret
from ..secrets import read_secret

if TYPE_CHECKING:
    from .loaded import LoadedSettings

KEYRING = "keyring:"


def resolve_secret(text: str, *, field: str) -> str:
    """Return what a reference `keyring:<service>/<name>` stands for; any other text is the secret itself.

    Raises `BadInput` that names `field`.
    """
    found = use_keyring("get", text, field=field) if text.startswith(KEYRING) else text
    if found is None:
        raise BadInput(f"{field}: the keyring holds no {text}", field=field, advice="set it again")
    return found


def use_keyring(act: Literal["get", "set", "delete"], reference: str, *values: str, field: str) -> str | None:
    """Get, set or delete what a reference stands for in the system's keyring. Raises `BadInput` that names `field`."""
    service, _, name = reference.removeprefix(KEYRING).partition("/")
    try:
        import keyring

        return cast("str | None", getattr(keyring, f"{act}_password")(service, name, *values))
    except Exception as error:  # each system's keyring raises its own
        why = f"{field}: the keyring cannot be used: {str(error).rstrip('.')}"
        advice = "unlock it, or: pip install 'halo-kernel[keyring]', or: halo settings set secrets.store file"
        raise BadInput(why, field=field, advice=advice) from error


class KeptSecrets:
    """See `contracts.Secrets`. One JSON object a plugin, `secrets/<plugin>.secrets`, of texts or references by name."""

    def __init__(self, settings: LoadedSettings, plugin: str) -> None:
        self.path = settings.home / "secrets" / f"{quote(plugin, safe='')}.secrets"
        self._plugin = plugin
        self._redactor = settings.redactor

    def get(self, name: str) -> Secret | None:
        """See `contracts.Secrets.get`."""
        text, field = self._read().get(name), f"{self._plugin}/{name}"
        secret = None if text is None else Secret(resolve_secret(text, field=field), field)
        self._redactor.learn(field, [secret] if secret else [])
        return secret

    def known(self) -> Sequence[str]:
        """See `contracts.Secrets.known`."""
        return sorted(self._read())

    def mask(self, text: str) -> str:
        """See `contracts.Secrets.mask`."""
        return self._redactor(text)

    def _read(self) -> dict[str, str]:
        return json.decode(read_secret(self.path) or "{}", type=dict[str, str])
