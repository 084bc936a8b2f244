"""One request to a server, what it answers, and the errors that it tells of."""

from __future__ import annotations

import inspect
import socket
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from .. import errors
from ..errors import HaloError, Stopping
from ..presence import Presence
from ..records import ServerEvent

CONNECT_SECONDS = 5.0
_CUT = (OSError, HTTPException)


def send(
    server: Presence, method: str, path: str, body: bytes | None = None, *, headers: Mapping[str, str], timeout: float
) -> HTTPResponse:
    """Send a request and return the answer, to be closed; `timeout`, in seconds, is for each wait on the socket.

    Raises `Stopping` when nobody listens there, or the server went away before it answered.
    """
    where = urlsplit(server.url)
    connection = HTTPConnection(where.netloc or "localhost", timeout=CONNECT_SECONDS)
    try:
        if server.is_private:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(where.path)
        else:
            connection.connect()
        connection.sock.settimeout(timeout)
        ours = {"Authorization": f"Bearer {server.token}", "Connection": "close", "Content-Type": "application/json"}
        connection.request(method, path, body=body, headers={**ours, **headers})
        return connection.getresponse()
    except _CUT as error:
        connection.close()
        raise gone() from error


def read(response: HTTPResponse) -> object:
    """Return an answer's value: decoded JSON, text of another type, or None without a body.

    Raises the `HaloError` that it tells of, or `Stopping` when the server went away in the middle.
    """
    try:
        raw = response.read()
    except _CUT as error:
        raise gone() from error
    value: object = raw.decode("utf-8", "replace") if raw else None
    if response.headers.get_content_type() == "application/json":
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(raw)
    if response.status >= 400:
        raise rebuild(value)
    return value


def read_events(chunks: Iterable[bytes]) -> Generator[ServerEvent]:
    """Yield the events of the server's streams; a last one that is not ended is dropped. Raises `Stopping`."""
    fields: dict[str, str] = {}
    rest = b""
    try:
        for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                name, _, value = line.decode("utf-8", "replace").partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    data = msgspec.json.decode(fields["data"])
                    yield ServerEvent(event=fields["event"], data=data, id=fields.get("id"))
                    fields = {}
    except _CUT as error:
        raise gone() from error


def rebuild(told: object) -> HaloError:
    """Return the error that a server tells about; one of an unknown type becomes a plain `HaloError`."""
    facts = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    kind = getattr(errors, str(facts.get("type")), HaloError)
    message = str(facts.get("error") or "The server answered with an error that it did not explain.")
    try:
        accepted = inspect.signature(kind).parameters.keys() & facts.keys()
        error = kind(message, **{name: facts[name] for name in accepted})
    except TypeError:  # no class, or an older server leaves out a fact that it needs
        error = None
    return error if isinstance(error, HaloError) else HaloError(message)


def gone() -> Stopping:
    """Return the error for a server that is not there, or went away in the middle."""
    return Stopping("The server cannot be reached, or went away.", advice="Start it with `halo up` if it stays so.")
