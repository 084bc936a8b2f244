"""Where a server is, and one request to it."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import msgspec

from ..errors import Stopping

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a server listens: a TCP address, or the path of a Unix socket."""

    token: str = field(repr=False)
    url: str = ""
    path: str = ""

    def __str__(self) -> str:
        return self.url or self.path

    def connection(self, timeout: float) -> HTTPConnection:
        """Return a connection that is not open yet; `timeout`, in seconds, is for each wait on the socket."""
        if self.path:
            return _UnixConnection(self.path, timeout)
        parts = urlsplit(self.url)
        return HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=timeout)


class Unreachable(Stopping):
    """Nobody listens there; the request was not sent."""


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def send(
    place: Place,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float,
) -> tuple[HTTPConnection, HTTPResponse]:
    """Send a request and return the connection and the answer's beginning.

    Raises `Unreachable` when it was not sent, `Stopping` when the server went away before it answered.
    """
    connection = place.connection(CONNECT_SECONDS)
    try:
        connection.connect()
    except OSError as error:
        connection.close()
        raise Unreachable(f"The server at {place} cannot be reached.", advice="Start it with `halo up`.") from error
    try:
        connection.sock.settimeout(timeout)
        everything = {"Authorization": f"Bearer {place.token}", **(headers or {})}
        if body is not None:
            everything.setdefault("Content-Type", "application/json")
        connection.request(method, path, body=body, headers=everything)
        return connection, connection.getresponse()
    except (OSError, HTTPException) as error:
        connection.close()
        raise gone(place) from error


def read(response: HTTPResponse, place: Place) -> object:
    """Return an answer's value: decoded JSON, text of another type, or None without a body. Raises `Stopping`."""
    try:
        raw = response.read()
    except (OSError, HTTPException) as error:
        raise gone(place) from error
    if not raw:
        return None
    if response.headers.get_content_type() == "application/json":
        with suppress(msgspec.DecodeError):
            return cast("object", msgspec.json.decode(raw))
    return raw.decode("utf-8", "replace")


def gone(place: Place) -> Stopping:
    """Return the error for a server that went away in the middle."""
    return Stopping(f"The server at {place} went away before it had answered.", advice="See `halo status`.")
