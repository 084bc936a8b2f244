"""Where secrets lie: in a file that only its owner can read, or in the system's keyring, with a reference in the file.

Keyring: https://keyring.readthedocs.io
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..errors import BadInput
from ..records import Secret
from ..secrets import PRIVATE_FOLDER, read_secret, write_secret

if TYPE_CHECKING:
    from .loaded import LoadedSettings

KEYRING = "keyring:"
_OURS = f"{KEYRING}halo/"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789@_-")


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
    reference = f"{_OURS}{home}/{field}"
    _keyring("set_password", reference, text, field=field)
    return reference


def forget(text: str) -> None:
    """Take what `keep` put into the keyring out of it, if it lets us."""
    if text.startswith(_OURS):
        with suppress(BadInput):
            _keyring("delete_password", text, field="")


def _keyring(act: str, reference: str, *values: str, field: str) -> str | None:
    service, _, name = reference.removeprefix(KEYRING).partition("/")
    try:
        import keyring

        found: str | None = getattr(keyring, act)(service, name, *values)
    except Exception as error:  # each system's keyring raises its own
        is_missing, instead = isinstance(error, ImportError), "unlock it, or: halo settings set secrets.store file"
        advice = "pip install 'halo-kernel[keyring]'" if is_missing else instead
        raise BadInput(
            f"{field}: the keyring cannot be used: {str(error).rstrip('.')}", field=field, advice=advice
        ) from error
    return found


class KeptSecrets:
    """See `contracts.Secrets`. One file a secret below `secrets/<plugin>/`."""

    def __init__(self, settings: LoadedSettings, plugin: str) -> None:
        self._settings = settings
        self._plugin = plugin
        self._folder = settings.home / "secrets" / _coded(plugin)

    def get(self, name: str) -> Secret | None:
        """See `contracts.Secrets.get`."""
        text, field = read_secret(self._folder / f"{_coded(name)}.secret"), f"{self._plugin}/{name}"
        secret = None if text is None else Secret(resolve(text, field=field), field)
        self._settings.redactor.learn(field, [secret] if secret else [])
        return secret

    def put(self, name: str, value: str) -> None:
        """See `contracts.Secrets.put`."""
        path, field = self._folder / f"{_coded(name)}.secret", f"{self._plugin}/{name}"
        if value.startswith(KEYRING):
            raise BadInput(f"{field} begins with {KEYRING}, as a reference does", field=field)
        self._folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        write_secret(path, keep(value, self._settings.home, field=field) if self._settings.in_keyring else value)
        self.get(name)  # which lets the redactor know

    def delete(self, name: str) -> None:
        """See `contracts.Secrets.delete`."""
        path = self._folder / f"{_coded(name)}.secret"
        forget(read_secret(path) or "")
        path.unlink(missing_ok=True)

    def known(self) -> Sequence[str]:
        """See `contracts.Secrets.known`."""
        return sorted(unquote(each.stem) for each in self._folder.glob("*.secret"))


def _coded(name: str) -> str:
    """Return a name as a file's. Capitals are written out: where `A` and `a` are one file, they stay two names."""
    coded = "".join(chr(each) if each in _PLAIN else f"%{each:02x}" for each in name.encode())
    if not 0 < len(coded) <= 200:
        raise BadInput("the name of a secret must have 1 to 200 bytes; capitals and signs take three", field="name")
    return coded
