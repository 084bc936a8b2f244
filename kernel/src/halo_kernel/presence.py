"""Which server serves a home: its lock, which dies with it, and the file that tells clients where it is."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import msgspec

from .errors import ServerRunning
from .secrets import read_secret, write_secret

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_PATIENCE = 0.5
_STEP = 0.02


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
    text = read_secret(_file(home))
    try:
        return None if text is None else msgspec.json.decode(text, type=Presence)
    except msgspec.DecodeError:
        return None


@contextmanager
def published(home: Path, presence: Presence) -> Generator[None]:
    """Tell clients where the server is, for as long as the context lasts."""
    write_secret(_file(home), msgspec.json.encode(presence).decode())
    try:
        yield
    finally:
        _file(home).unlink(missing_ok=True)


@contextmanager
def sole_server(home: Path) -> Generator[None]:
    """Be the one server of this home for as long as the context lasts. Raises `ServerRunning`.

    The lock ends with the process, however it ends; a file that a killed server left is removed. A client that only
    looks holds the lock for an instant, so we try for half a second.
    """
    with _lock_file(home).open("a") as file:
        deadline = time.monotonic() + _PATIENCE
        while not _lock(file):
            if time.monotonic() >= deadline:
                raise _running(home)
            time.sleep(_STEP)
        _file(home).unlink(missing_ok=True)
        yield


def is_served(home: Path) -> bool:
    """Tell whether a server of this home lives, from the moment it begins to start until it has ended."""
    try:
        with _lock_file(home).open() as file:
            return not _lock(file, shared=True)
    except OSError:  # no home, or one that we may not use: whoever starts a kernel on it is told why
        return False


def _file(home: Path) -> Path:
    return home / "secrets" / "server.json"


def _lock_file(home: Path) -> Path:
    return home / "global" / "server.lock"


def _running(home: Path) -> ServerRunning:
    presence = read_presence(home)
    return ServerRunning(
        f"A server of the home {home} runs already" + (f" at {presence.url}." if presence else "."),
        url=presence.url if presence else "",
        advice="Use it, stop it with `halo stop`, or set HALO_HOME to another folder.",
    )


def _lock(file: IO[str], *, shared: bool = False) -> bool:
    """Lock a file until it is closed; tell whether nobody else held it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
