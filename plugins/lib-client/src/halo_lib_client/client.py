"""Requests and streams, to whichever server of the home there is."""

from __future__ import annotations

import inspect
import os
import socket
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Unpack, cast
from urllib.parse import urlsplit

import msgspec

import halo_kernel
from halo_kernel import HaloError, Presence, ServerEvent, Stopping, Wanted, default_home, is_served, read_presence

SILENCE_SECONDS = 120.0
START_SECONDS = 30.0
RECONNECT_SECONDS = 15.0
CONNECT_SECONDS = 5.0
_STEP = 0.1


class Client(ExitStack):
    """Speaks to one home's server, or to a kernel of its `own` in this process, which ends with the client's context.

    Blocks; each call opens its own connection.
    """

    def __init__(self, home: Path | None = None) -> None:
        super().__init__()
        self.home = default_home(os.environ) if home is None else home
        self.own: Presence | None = None

    @property
    def url(self) -> str:
        """Where the server is, for a browser; empty when no browser can reach it. Raises `Stopping` when it is gone."""
        return "" if self.embedded else self._server().url

    @property
    def embedded(self) -> bool:
        """Whether the kernel runs in this process."""
        return self.own is not None

    def get(self, path: str) -> Any:
        """Return what a path answers, decoded. Raises the `HaloError` that the server tells of, or `Stopping`."""
        return self.request("GET", path)

    def post(self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Any:
        """Send a value to a path and return the answer, decoded. Raises like `get`."""
        return self.request("POST", path, {} if body is None else body, headers=headers)

    def request(self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Any:
        """Make any request. Raises like `get`."""
        raw = None if body is None else msgspec.json.encode(body)
        with self._asking(method, path, raw, headers or {}) as response:
            return read(response)

    def stream(self, path: str, *, after: str | None = None) -> Generator[ServerEvent]:
        """Yield a path's events, from the cursor `after` on, until the server ends the stream.

        A stream that is cut, by a restart of the server too, is taken up after the last cursor. Raises the `HaloError`
        that the server tells of, and `Stopping` when no server is there for 15 s.
        """
        last = after
        while True:
            try:
                for event in self._events(path, last):
                    last = event.id if event.id is not None else last
                    yield event
                return
            except Stopping:
                if self.embedded or not _is_ready(self.home, RECONNECT_SECONDS):
                    raise

    def _events(self, path: str, last: str | None) -> Generator[ServerEvent]:
        headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
        with self._asking("GET", path, None, headers) as response:
            for event in read_events(iter(partial(response.read1, 65_536), b"")):
                if event.event == "shutdown":
                    raise gone()
                if event.event == "error":
                    raise rebuild(event.data)
                yield event

    @contextmanager
    def _asking(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Generator[HTTPResponse]:
        """Send a request and give the answer.

        Raises the `HaloError` that the server tells of, and `Stopping` when it is not there, or goes away meanwhile.
        """
        server = self._server()
        where = urlsplit(server.url)
        connection = HTTPConnection(where.netloc or "localhost", timeout=CONNECT_SECONDS)
        try:
            if server.is_private:
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.connect(where.path)
            else:
                connection.connect()
            connection.sock.settimeout(SILENCE_SECONDS)
            ours = {"Authorization": f"Bearer {server.token}", "Connection": "close"}
            connection.request(method, path, body, {**ours, "Content-Type": "application/json", **headers})
            with connection.getresponse() as response:
                if response.status >= 400:
                    raise rebuild(read(response))
                yield response
        except (OSError, HTTPException) as error:
            raise gone() from error
        finally:
            connection.close()

    def _server(self) -> Presence:
        """Return where the server is now."""
        server = self.own or read_presence(self.home)
        if server is None:
            raise Stopping(f"No server of the home {self.home} is running.", advice="Start it with `halo up`.")
        return server


def connect(home: Path | None = None, *, local: bool = False, **wanted: Unpack[Wanted]) -> Client:
    """Return a client of the home's server, else of a kernel in this process; `local` forces the latter.

    The further arguments are those of `Kernel.start`. Raises what keeps a kernel from starting.
    """
    client = Client(home)
    if local or not _is_ready(client.home):
        from .embedded import running

        client.own = client.enter_context(running(client.home, wanted))
    return client


def find_server(home: Path | None = None) -> Client | None:
    """Return a client of the home's running server, None when there is none. Raises `Stopping` for one that is deaf."""
    client = Client(home)
    return client if _is_ready(client.home) else None


def _is_ready(home: Path, patience: float = 0.0) -> bool:
    """Tell whether the home has a server; wait for one that is starting or stopping, or `patience` s for one to start.

    Raises `Stopping` for one that takes too long.
    """
    began = time.monotonic()
    while (served := is_served(home)) or time.monotonic() < began + patience:
        if served and read_presence(home) is not None:
            return True
        if time.monotonic() >= began + START_SECONDS:
            said = f"A server of the home {home} is running, but it does not answer."
            raise Stopping(said, advice="Look at `halo logs`, or stop it.")
        time.sleep(_STEP)
    return False


def read(response: HTTPResponse) -> object:
    """Return an answer's value: decoded JSON, text of another type, or None without a body."""
    raw = response.read()
    value: object = raw.decode("utf-8", "replace") if raw else None
    if response.headers.get_content_type() == "application/json":
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(raw)
    return value


def read_events(chunks: Iterable[bytes]) -> Generator[ServerEvent]:
    """Yield the events of the server's streams; a last one that is not ended is dropped.

    Raises `HaloError` for what the server cannot have sent.
    """
    fields: dict[str, str] = {}
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.decode("utf-8", "replace").partition(": ")
            if name:
                fields[name] = value
            elif not line:
                if "event" in fields:
                    yield _event(fields)
                fields = {}


def _event(fields: Mapping[str, str]) -> ServerEvent:
    try:
        data = msgspec.json.decode(fields.get("data", ""))
    except (msgspec.DecodeError, RecursionError) as error:
        advice = "Look at what is between the server and this program, such as a proxy."
        raise HaloError("A stream of the server's holds what it has not sent.", advice=advice) from error
    return ServerEvent(event=fields["event"], data=data, id=fields.get("id"))


def rebuild(told: object) -> HaloError:
    """Return the error that a server tells about; one of an unknown type becomes a plain `HaloError`."""
    facts = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    named: object = getattr(halo_kernel, str(facts.get("type")), None)
    kind = named if isinstance(named, type) and issubclass(named, HaloError) else HaloError
    message = str(facts.get("error") or "The server answered with an error that it did not explain.")
    try:
        accepted = inspect.signature(kind).parameters.keys() & facts.keys()
        return kind(message, **{name: facts[name] for name in accepted})
    except TypeError:  # an older server leaves out a fact that it needs
        return HaloError(message)


def gone() -> Stopping:
    """Return the error for a server that is not there, or went away in the middle."""
    return Stopping("The server cannot be reached, or went away.", advice="Start it with `halo up` if it stays so.")
