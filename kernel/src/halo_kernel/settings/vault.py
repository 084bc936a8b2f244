"""Where secrets lie: in a file that only its owner can read, or in the system's keyring, with a reference in the file.

Keyring: https://keyring.readthedocs.io
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from msgspec import json

from ..errors import BadInput
from ..locks import locked
from ..records import Secret
from ..secrets import read_secret, write_secret

if TYPE_CHECKING:
    from .loaded import LoadedSettings

KEYRING = "keyring:"
OURS = re.compile(rf'{KEYRING}halo/[^"\r\n]*')


def resolve(text: str, *, field: str) -> str:
    """Return what a reference `keyring:<service>/<name>` stands for; any other text is the secret itself.

    Raises `BadInput` that names `field`.
    """
    found = _keyring("get_password", text, field=field) if text.startswith(KEYRING) else text
    if found is None:
        raise BadInput(f"{field}: the keyring holds no {text}", field=field, advice="set it again")
    return found


def keep(text: str, home: Path, *, field: str) -> str:
    """Put a secret into the keyring and return the reference to it. Raises `BadInput` that names `field`."""
    # a new name, so that the old entry counts until the file is written
    reference = f"{KEYRING}halo/{home}/{field}/{token_hex(4)}"
    _keyring("set_password", reference, text, field=field)
    return reference


def forget(text: str) -> None:
    """Take what `keep` put into the keyring out of it, if it lets us."""
    if OURS.fullmatch(text):
        with suppress(BadInput):
            _keyring("delete_password", text, field="")


def _keyring(act: str, reference: str, *values: str, field: str) -> str | None:
    service, _, name = reference.removeprefix(KEYRING).partition("/")
    try:
        import keyring

        return cast("str | None", getattr(keyring, act)(service, name, *values))
    except Exception as error:  # each system's keyring raises its own
        why = f"{field}: the keyring cannot be used: {str(error).rstrip('.')}"
        advice = "unlock it, or: pip install 'halo-kernel[keyring]', or: halo settings set secrets.store file"
        raise BadInput(why, field=field, advice=advice) from error


class KeptSecrets:
    """See `contracts.Secrets`. One JSON object a plugin, `secrets/<plugin>.secrets`, of texts or references by name."""

    def __init__(self, settings: LoadedSettings, plugin: str) -> None:
        self._settings = settings
        self._plugin = plugin
        self._path = settings.home / "secrets" / f"{quote(plugin, safe='')}.secrets"

    def get(self, name: str) -> Secret | None:
        """See `contracts.Secrets.get`."""
        text, field = self._read().get(name), f"{self._plugin}/{name}"
        secret = None if text is None else Secret(resolve(text, field=field), field)
        self._settings.redactor.learn(field, [secret] if secret else [])
        return secret

    def put(self, name: str, value: str) -> None:
        """See `contracts.Secrets.put`."""
        field = f"{self._plugin}/{name}"
        if value.startswith(KEYRING):
            raise BadInput(f"{field} begins with {KEYRING}, as a reference does", field=field)
        self._change(name, self._settings.kept(value, field))
        self.get(name)  # which lets the redactor know

    def delete(self, name: str) -> None:
        """See `contracts.Secrets.delete`."""
        self._change(name, None)

    def known(self) -> Sequence[str]:
        """See `contracts.Secrets.known`."""
        return sorted(self._read())

    def mask(self, text: str) -> str:
        """See `contracts.Secrets.mask`."""
        return self._settings.redactor(text)

    def _read(self) -> dict[str, str]:
        return json.decode(read_secret(self._path) or "{}", type=dict[str, str])

    def _change(self, name: str, text: str | None) -> None:
        with locked(self._path.with_suffix(".lock")):
            held = self._read()
            old = held.pop(name, text)
            write_secret(self._path, json.encode(held if text is None else {**held, name: text}).decode())
        if old != text:
            forget(old or "")
