"""`halo password`: set the password of this home."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from getpass import getpass

from halo_kernel import HaloError, default_home, load_kernel_settings

from .hashing import NO_TEXT, hash_password, weakness
from .routes import KEY

CANCELLED = 130


def command(argv: Sequence[str]) -> int:
    """Ask for a new password, twice on a terminal, once from a pipe, store its hash and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="halo password",
        description="Set the password with which browsers sign in. Asks twice on a terminal, else reads one line.",
        epilog="At least 8 characters, with a letter and a digit.",
    )
    parser.parse_args(argv)
    try:
        return _set()
    except HaloError as error:
        return _refuse(error.message, error.advice)
    except UnicodeDecodeError:
        return _refuse(NO_TEXT, "Nothing was changed.")
    except (KeyboardInterrupt, EOFError):
        print("\nNothing was changed.", file=sys.stderr)
        return CANCELLED


def _set() -> int:
    settings = load_kernel_settings(default_home(os.environ), os.environ)
    source = next(field.source for field in settings.fields() if field.key == KEY)
    if source.startswith("environment"):
        return _refuse(f"The password comes from the {source}, which goes before a stored one.", "Unset it first.")
    password = _ask()
    if password is None:
        return _refuse("The two passwords are not the same. Nothing was changed.")
    if lack := weakness(password):
        return _refuse(lack, "Nothing was changed.")
    settings.write({KEY: hash_password(password)})
    print("The password is set. Browsers that are signed in stay so.")
    return 0


def _ask() -> str | None:
    """Return the new password, or None when the two that were typed differ."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass("New password: ")
    return password if getpass("Again: ") == password else None


def _refuse(message: str, advice: str = "") -> int:
    print(" ".join(part for part in (message, advice) if part), file=sys.stderr)
    return 1
