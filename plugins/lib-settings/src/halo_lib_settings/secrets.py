"""Where new secrets go: into a private file, or into the system's keyring, with a reference to it in the file."""

from __future__ import annotations

import re
from contextlib import suppress
from secrets import token_hex
from urllib.parse import unquote

from msgspec import json

from halo_kernel import BadInput, Host, SecretSettings, Settings, locked, use_keyring, write_secret

REFERENCE = re.compile(r"<<[A-Za-z_][A-Za-z0-9_]*>>|keyring:.*")
OURS = re.compile(r'keyring:halo/[^"\r\n]*')


def keep_secret(host: Host, name: str, value: str) -> None:
    """Keep a secret of a plugin durably, in place of the one of that name; `host.secrets` gives it from then on.

    Raises `BadInput` for a keyring that does not take it, and keeps the old one.
    """
    field = f"{unquote(host.secrets.path.stem)}/{name}"
    if value.startswith("keyring:"):
        raise BadInput(f"{field} begins with keyring:, as a reference does", field=field)
    _change(host, name, kept(host.settings, value, field=field))
    host.secrets.get(name)  # which has it masked from now on


def forget_secret(host: Host, name: str) -> None:
    """Forget a secret of a plugin; harmless when there is none."""
    _change(host, name, None)


def kept(settings: Settings, text: str, *, field: str) -> str:
    """Return what to write for a new secret: itself, or, where settings want that, a reference to the keyring.

    Raises `BadInput` that names `field`.
    """
    if settings.of(SecretSettings).store == "file":
        return text
    # a new name, so that the old entry counts until the file is written
    reference = f"keyring:halo/{settings.home}/{field}/{token_hex(4)}"
    use_keyring("set", reference, text, field=field)
    return reference


def forget(text: str) -> None:
    """Take what `kept` put into the keyring out of it, if it lets us."""
    if OURS.fullmatch(text):
        with suppress(BadInput):
            use_keyring("delete", text, field="")


def _change(host: Host, name: str, text: str | None) -> None:
    path = host.secrets.path
    with locked(path.with_suffix(".lock")):
        held = json.decode(path.read_bytes() if path.exists() else b"{}", type=dict[str, str])
        old = held.pop(name, text)
        write_secret(path, json.encode(held if text is None else {**held, name: text}).decode())
    if old != text:
        forget(old or "")
