"""Which server serves a home: its lock, which dies with it, and the file that tells clients where it is."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
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

    `started` is in UTC milliseconds.
    """

    url: str
    token: str
    pid: int
    version: str
    started: int


def read_presence(home: Path) -> Presence | None:
    """Return what the last server of this home wrote, or None; it may have died since."""
    text = read_secret(_file(home))
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Presence)
    except msgspec.DecodeError:
        return None


@contextmanager
def published(home: Path, presence: Presence) -> Generator[None]:
    """Tell clients where the server is, for as long as the context lasts."""
    write_secret(_file(home), msgspec.json.encode(presence).decode())
    try:
        yield
    finally:
        if read_presence(home) == presence:
            with suppress(OSError):
                _file(home).unlink()


@contextmanager
def sole_server(home: Path) -> Generator[None]:
    """Be the one server of this home for as long as the context lasts. Raises `ServerRunning`.

    The lock ends with the process, however it ends. A client that only looks holds it for an instant, so we try for
    half a second.
    """
    with (home / "global" / "server.lock").open("a+") as file:
        deadline = time.monotonic() + _PATIENCE
        while not _lock(file):
            if time.monotonic() >= deadline:
                raise _running(home)
            time.sleep(_STEP)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            _unlock(file)


def is_served(home: Path) -> bool:
    """Tell whether a server of this home lives, from the moment it begins to start until it has ended."""
    path = home / "global" / "server.lock"
    if not path.exists():
        return False
    with path.open("a+") as file:
        free = _lock(file, shared=True)
        if free:
            _unlock(file)
        return not free


def _file(home: Path) -> Path:
    return home / "secrets" / "server.json"


def _running(home: Path) -> ServerRunning:
    presence = read_presence(home)
    url = presence.url if presence else ""
    where = f" at {url}" if url else ""
    return ServerRunning(
        f"A server of the home {home} runs already{where}.",
        url=url,
        advice="Use it, stop it with `halo stop`, or set HALO_HOME to another folder.",
    )


def _lock(file: IO[str], *, shared: bool = False) -> bool:
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(file)
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(file: IO[str]) -> None:
    try:
        import fcntl
    except ImportError:
        return  # closing the file frees it
    fcntl.flock(file, fcntl.LOCK_UN)


def _lock_on_windows(file: IO[str]) -> bool:
    import importlib

    msvcrt = importlib.import_module("msvcrt")
    try:
        file.seek(1 << 30)  # beyond the text, which others may read
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True
