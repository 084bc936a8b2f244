"""`halo password`: set the password of this home."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from getpass import getpass

from halo_kernel import BadInput, default_home, load_kernel_settings
from halo_lib_settings import write_settings

from .hashing import NO_TEXT, hash_password, weakness
from .routes import KEY

CANCELLED = 130
UNCHANGED = "nothing was changed"


def command(argv: Sequence[str]) -> int:
    """Ask for a new password, twice on a terminal, once from a pipe, and store its hash; Ctrl-C is 130."""
    parser = argparse.ArgumentParser(
        prog="halo password",
        description="Set the password with which browsers sign in. Asks twice on a terminal, else reads one line.",
        epilog="At least 8 characters, with a letter and a digit.",
    )
    parser.parse_args(argv)
    try:
        _set()
    except (KeyboardInterrupt, EOFError):
        print("\nNothing was changed.", file=sys.stderr)
        return CANCELLED
    print("The password is set. Browsers that are signed in stay so.")
    return 0


def _set() -> None:
    settings = load_kernel_settings(default_home(os.environ), os.environ)
    source = settings.at().fields[KEY].source
    if source.startswith("environment"):
        raise BadInput(f"the password comes from the {source}, which goes before a stored one", advice="unset it first")
    password = _ask()
    if lack := weakness(password):
        raise BadInput(lack, field=KEY, advice=UNCHANGED)
    write_settings(settings, {KEY: hash_password(password)})


def _ask() -> str:
    """Return the new password. Raises `BadInput` when the two that were typed differ, or are no text."""
    try:
        if not sys.stdin.isatty():
            return sys.stdin.readline().rstrip("\r\n")
        password, again = getpass("New password: "), getpass("Again: ")
    except UnicodeDecodeError:
        raise BadInput(NO_TEXT, field=KEY, advice=UNCHANGED) from None
    if again != password:
        raise BadInput("the two passwords are not the same", field=KEY, advice=UNCHANGED)
    return password
