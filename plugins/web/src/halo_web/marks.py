"""How far a reader of the channel has read: the `id:` of every frame, to go on right behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from halo_kernel import BadInput, Exchange

_MARK = re.compile(
    r"(?P<cursor>[0-9A-Za-z_-]{1,64}\.[0-9]{1,18})"
    r"(?:~(?P<reply>[0-9A-Za-z_-]{0,64})\.(?P<upto>[0-9]{1,9})\.(?P<seen>[0-9]{1,6}))?"
)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place in a session's frames.

    All up to the journal's `cursor`, and of what is not in the journal yet the first `upto` characters of `reply`; of
    the next event the first `seen` frames, those with text not counted.
    """

    cursor: str = ""
    reply: str = ""
    upto: int = 0
    seen: int = 0

    def __str__(self) -> str:
        return f"{self.cursor}~{self.reply}.{self.upto}.{self.seen}" if self.reply or self.seen else self.cursor


def parse_mark(raw: str) -> Mark:
    """Return the mark of a frame's id, or of a cursor. Raises `BadInput`."""
    found = _MARK.fullmatch(raw)
    if found is None:
        raise BadInput(f"after must be an id as this server gave it, not {raw[:80]!r}", field="after")
    if found["reply"] is None:
        return Mark(cursor=found["cursor"])
    return Mark(cursor=found["cursor"], reply=found["reply"], upto=int(found["upto"]), seen=int(found["seen"]))


def mark_of(exchange: Exchange) -> Mark | None:
    """Return where a reader wants to go on; the header of a reconnecting one is newer than its address.

    Raises `BadInput`.
    """
    raw = exchange.last_event_id or exchange.query.get("after")
    return parse_mark(raw) if raw else None
