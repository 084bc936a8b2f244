"""Server-sent events, from bytes.

Wire: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from ..records import ServerEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r(?!$)")


def read_events(chunks: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events of a stream whose bytes come in any pieces; a last one that is not ended is dropped.

    Data that is no JSON is yielded as text.
    """
    fields: dict[str, list[str]] = {}
    for line in _lines(chunks):
        if not line:
            if "data" in fields:
                yield _event(fields)
            fields = {}
            continue
        name, _, value = line.partition(":")
        fields.setdefault(name, []).append(value.removeprefix(" "))


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield whole lines; a carriage return at the end of a chunk waits for what follows it."""
    rest = b""
    for chunk in chunks:
        *whole, rest = _LINE_END.split(rest + chunk)
        yield from (line.decode("utf-8", "replace") for line in whole)


def _event(fields: dict[str, list[str]]) -> ServerEvent:
    text = "\n".join(fields["data"])
    try:
        data: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        data = text
    return ServerEvent(event=fields.get("event", ["message"])[-1], data=data, id=fields.get("id", [None])[-1])
