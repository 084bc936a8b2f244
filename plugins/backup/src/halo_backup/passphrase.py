"""Where a passphrase comes from: a file, the environment, or a person at a terminal; never the command line."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

from halo_kernel import BadInput

from .sealed import SHORTEST

VARIABLE = "HALO_BACKUP_PASSPHRASE"
_WAYS = f"set {VARIABLE}_FILE to a file with it, or run this on a terminal"


def passphrase(*, new: bool) -> str:
    """Return the passphrase; a `new` one is asked for twice. Raises `BadInput`."""
    text = _given()
    if not text:
        if not sys.stdin.isatty():
            raise BadInput("the secrets take a passphrase", field="passphrase", advice=_WAYS)
        text = getpass.getpass("Passphrase: ")
        if new and getpass.getpass("Once more: ") != text:
            raise BadInput("the two passphrases differ", field="passphrase", advice="try again")
    if new and len(text) < SHORTEST:
        raise BadInput(f"a passphrase has at least {SHORTEST} characters", field="passphrase")
    return text


def is_given() -> bool:
    """Tell whether the environment has a passphrase."""
    return bool(os.environ.get(VARIABLE) or os.environ.get(f"{VARIABLE}_FILE"))


def _given() -> str:
    value, path = os.environ.get(VARIABLE, ""), os.environ.get(f"{VARIABLE}_FILE", "")
    if value and path:
        raise BadInput(f"{VARIABLE} and {VARIABLE}_FILE are both set", field=VARIABLE, advice="unset one of them")
    if path:
        try:
            return Path(path).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} cannot be read: {error}", field=f"{VARIABLE}_FILE") from error
    return value
