"""Server-sent events out of raw bytes, however these are cut."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: `data` lines joined by newlines, its type, and the last id seen so far; `retry` in milliseconds."""

    data: str
    event: str = "message"
    id: str = ""
    retry: int | None = None


class SseParser:
    """An incremental parser of `text/event-stream` (WHATWG HTML, section 9.2.6).

    Feed it bytes as they arrive; any split, even inside a character or between CR and LF, gives the same events.
    `limit` bounds what is kept of an unfinished event, in bytes; `feed` raises `ValueError` beyond it.
    """

    def __init__(self, *, limit: int = 16 * 1024 * 1024) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._scanned = 0
        self._started = False
        self._after_cr = False
        self._size = 0
        self._last_id = ""
        self._size = 0
        self._data: list[str] = []
        self._event = ""
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events that are complete with them."""
        self._rest += chunk
        if self._after_cr and self._rest:
            # The CR that ended the former chunk has ended its line; an LF right after it belongs to it.
            self._after_cr = False
            if self._rest[0] == 0x0A:
                del self._rest[0]
        events: list[SseEvent] = []
        begin = 0
        for end in _LINE_END.finditer(self._rest, self._scanned):
            self._take(bytes(self._rest[begin : end.start()]), events)
            begin = end.end()
            self._after_cr = begin == len(self._rest) and end[0] == b"\r"
        del self._rest[:begin]
        self._scanned = len(self._rest)
        if self._size + len(self._rest) > self._limit:
            raise ValueError(f"a server-sent event is longer than {self._limit} bytes")
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that the end of the stream left without its blank line, if it has data.

        The standard drops it; but servers exist whose last line is a bare `data: [DONE]`.
        """
        events: list[SseEvent] = []
        if self._rest:
            self._take(bytes(self._rest), events)
            self._rest.clear()
        self._dispatch(events)
        return events

    def _take(self, line: bytes, events: list[SseEvent]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            self._size += len(line)
            self._field(name, value.removeprefix(b" ").decode("utf-8", "replace"))

    def _field(self, name: bytes, value: str) -> None:
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value
        elif name == b"id" and "\0" not in value:
            self._last_id = value
        elif name == b"retry" and value.isascii() and value.isdigit():
            self._retry = int(value)

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent("\n".join(self._data), self._event or "message", self._last_id, self._retry))
        self._reset()

    def _reset(self) -> None:
        self._size = 0
        self._data = []
        self._event = ""
        self._retry = None
