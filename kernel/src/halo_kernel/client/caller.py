"""Requests and streams, to whichever server of the home there is."""

from __future__ import annotations

import os
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import HaloError, Stopping
from ..presence import is_served, read_presence
from ..secrets import default_home
from .embedded import Embedded
from .events import read_events
from .failures import is_failure, rebuild
from .wire import Place, Unreachable, gone, read, send

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Mapping
    from types import TracebackType

    from ..records import ServerEvent

REPLY_SECONDS = 120.0
SILENCE_SECONDS = 45.0
START_SECONDS = 30.0
RECONNECT_SECONDS = 15.0
_STEP = 0.1


class Client:
    """Speaks to one home's server, or to a kernel in this process. Blocks; each call opens its own connection."""

    def __init__(self, home: Path, place: Place, embedded: Embedded | None = None) -> None:
        self.home = home
        self._place = place
        self._embedded = embedded

    @property
    def url(self) -> str:
        """Where the server is, for a browser; empty when no browser can reach it."""
        return self._place.url if self._embedded is None else ""

    @property
    def embedded(self) -> bool:
        """Whether the kernel runs in this process."""
        return self._embedded is not None

    def get(self, path: str) -> Any:
        """Return what a path answers, decoded. Raises the `HaloError` that the server tells of, or `Stopping`."""
        return self.request("GET", path)

    def post(self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Any:
        """Send a value to a path and return the answer, decoded. Raises like `get`."""
        return self.request("POST", path, {} if body is None else body, headers=headers)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = REPLY_SECONDS,
    ) -> Any:
        """Make any request; `timeout`, in seconds, is for each wait on the socket."""
        raw = None if body is None else msgspec.json.encode(body)
        connection, response = self._send(method, path, body=raw, headers=headers or {}, timeout=timeout)
        with closing(connection):
            value = read(response, self._place)
        if response.status >= 400:
            raise rebuild(value)
        return value

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
                if self._embedded is not None:
                    raise
                self._await_server()

    def close(self) -> None:
        """End the kernel, if it runs in this process."""
        if self._embedded is not None:
            self._embedded.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _send(
        self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Send a request; once more when it was not sent, or its token refused, and there is another server now."""
        try:
            connection, response = send(self._place, method, path, body=body, headers=headers, timeout=timeout)
            if response.status != 401 or not self._moved():
                return connection, response
            connection.close()
        except Unreachable:
            if not self._moved():
                raise
        return send(self._place, method, path, body=body, headers=headers, timeout=timeout)

    def _events(self, path: str, last: str | None) -> Iterator[ServerEvent]:
        headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
        connection, response = self._send("GET", path, body=None, headers=headers, timeout=SILENCE_SECONDS)
        with closing(connection):
            if response.status >= 400:
                raise rebuild(read(response, self._place))
            for event in read_events(_chunks(response, self._place)):
                if event.event == "shutdown":
                    raise gone(self._place)
                if event.event == "error" and is_failure(event.data):
                    raise rebuild(event.data)
                yield event

    def _moved(self) -> bool:
        """Look for the server again; tell whether it is another one."""
        found = None if self._embedded is not None else _published(self.home)
        if found is None or found == self._place:
            return False
        self._place = found
        return True

    def _await_server(self) -> None:
        deadline = time.monotonic() + RECONNECT_SECONDS
        while True:
            place = _living(self.home)
            if place is not None:
                self._place = place
                return
            if time.monotonic() >= deadline:
                raise Stopping(f"The server at {self._place} has stopped.", advice="Start it with `halo up`.")
            time.sleep(_STEP)


def connect(
    home: Path | None = None,
    *,
    local: bool = False,
    without: Collection[str] = (),
    only: Collection[str] | None = None,
    strict: bool = False,
    extra: Mapping[str, object] | None = None,
    discover: bool = True,
) -> Client:
    """Return a client of the home's server, else of a kernel in this process; `local` forces the latter.

    The further arguments are those of `Kernel.start`. Raises what keeps a kernel from starting.
    """
    home = default_home(os.environ) if home is None else home
    place = None if local else _find(home)
    if place is not None:
        return Client(home, place)
    options = {"without": without, "only": only, "strict": strict, "extra": extra or {}, "discover": discover}
    embedded = Embedded(home, options)
    return Client(home, embedded.start(), embedded)


def find_server(home: Path | None = None) -> Client | None:
    """Return a client of the home's running server, None when there is none. Raises `Stopping` for one that is deaf."""
    home = default_home(os.environ) if home is None else home
    place = _find(home)
    return None if place is None else Client(home, place)


def _find(home: Path) -> Place | None:
    """Return where the home's server is; wait for one that is only starting, or stopping."""
    deadline = time.monotonic() + START_SECONDS
    while is_served(home):
        place = _living(home)
        if place is not None:
            return place
        if time.monotonic() >= deadline:
            raise Stopping(
                f"A server of the home {home} is running, but it does not answer.",
                advice="Look at `halo logs`, or stop it.",
            )
        time.sleep(_STEP)
    return None


def _published(home: Path) -> Place | None:
    presence = read_presence(home)
    return None if presence is None else Place(url=presence.url, token=presence.token)


def _living(home: Path) -> Place | None:
    """Return where the server of the home's file is, if it answers; its port may be another program's by now."""
    presence, place = read_presence(home), _published(home)
    if presence is None or place is None:
        return None
    try:
        connection, response = send(place, "GET", "/api/server", timeout=REPLY_SECONDS)
        with closing(connection):
            told = read(response, place)
    except HaloError:
        return None
    is_it = isinstance(told, dict) and cast("dict[str, object]", told).get("pid") == presence.pid
    return place if is_it else None


def _chunks(response: HTTPResponse, place: Place) -> Iterator[bytes]:
    try:
        while chunk := response.read1(65_536):
            yield chunk
    except (OSError, HTTPException) as error:
        raise gone(place) from error
