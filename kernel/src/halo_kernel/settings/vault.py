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
    from .loaded import Settings

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


class Secrets:
    """The secrets that a plugin keeps by name: in private files, or in the keyring (the setting `secrets.store`).

    Whatever passes through here is masked in logs and transcripts from then on. Each method blocks for a short file
    operation, or as long as the system's keyring takes. The library `halo-lib-settings` keeps and forgets them.

    One JSON object a plugin, `secrets/<plugin>.secrets`, of texts or references by name.
    """

    def __init__(self, settings: Settings, plugin: str) -> None:
        self.path = settings.home / "secrets" / f"{quote(plugin, safe='')}.secrets"  # The file, as JSON.
        self._plugin = plugin
        self._redactor = settings.redactor

    def get(self, name: str) -> Secret | None:
        """Return a secret, None when there is none. Raises `BadInput` for a keyring that does not give it."""
        text, field = self._read().get(name), f"{self._plugin}/{name}"
        secret = None if text is None else Secret(resolve_secret(text, field=field), field)
        self._redactor.learn(field, [secret] if secret else [])
        return secret

    def known(self) -> Sequence[str]:
        """Return the names, sorted."""
        return sorted(self._read())

    def mask(self, text: str) -> str:
        """Return `text` with every secret value that the server knows, settings' too, replaced by its handle's name."""
        return self._redactor(text)

    def _read(self) -> dict[str, str]:
        return json.decode(read_secret(self.path) or "{}", type=dict[str, str])
