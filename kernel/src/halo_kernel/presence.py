"""Which server serves a home: its lock, which dies with it, and the file that tells clients where it is."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from .errors import ServerRunning
from .locks import is_locked, locked
from .secrets import read_secret, write_secret

_FILE = "secrets/server.json"
_LOCK = "global/server.lock"
_PATIENCE = 0.5


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """A running server: where it listens, and the local token that lets this user's programs in.

    `url` is `http://…`, or `unix:<path>` of a private socket; `address` is where other machines reach it, if they do.
    `started` is in UTC milliseconds.
    """

    url: str
    token: str
    pid: int
    version: str
    started: int
    address: str = ""

    @property
    def is_private(self) -> bool:
        """Whether no browser can reach it, only the process that it runs in."""
        return self.url.startswith("unix:")


def read_presence(home: Path) -> Presence | None:
    """Return what the last server of this home wrote, or None; it may have died since."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(read_secret(home / _FILE) or "", type=Presence)
    return None


@contextmanager
def published(home: Path, presence: Presence) -> Generator[None]:
    """Tell clients where the server is, for as long as the context lasts."""
    write_secret(home / _FILE, msgspec.json.encode(presence).decode())
    try:
        yield
    finally:
        (home / _FILE).unlink(missing_ok=True)


@contextmanager
def sole_server(home: Path) -> Generator[None]:
    """Be the one server of this home for as long as the context lasts. Raises `ServerRunning`.

    The lock ends with the process, however it ends; a file that a killed server left is removed. A client that only
    looks holds the lock for an instant, so we try for half a second.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(home / _LOCK, patience=_PATIENCE))
        except BlockingIOError as error:
            where = f" at {presence.url}, process {presence.pid}" if (presence := read_presence(home)) else ""
            said = f"A server of the home {home} runs already{where}."
            advice = "Use it, stop it with `halo stop`, or set HALO_HOME to another folder."
            raise ServerRunning(said, url=presence.url if presence else "", advice=advice) from error
        (home / _FILE).unlink(missing_ok=True)
        yield


def is_served(home: Path) -> bool:
    """Tell whether a server of this home lives, from the moment it begins to start until it has ended."""
    with suppress(OSError):  # no home, or one that we may not use: whoever starts a kernel on it is told why
        return is_locked(home / _LOCK)
    return False


def is_running(pid: int) -> bool:
    """Tell whether a process lives, or another one has its number now."""
    try:
        if os.name == "posix":  # elsewhere, to ask would end it
            os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
