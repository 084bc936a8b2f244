"""A place in a journal, opaque to everybody else and the same in every protocol."""

from __future__ import annotations

from ..errors import BadInput, CursorGone


def make_cursor(journal: str, seq: int) -> str:
    """Return the cursor that stands after event `seq` of `journal`."""
    return f"{journal}.{seq}"


def parse_cursor(cursor: str | None, journal: str, head: int) -> int:
    """Return the sequence number that `cursor` stands after, 0 for None.

    Raises `BadInput` for a malformed cursor, `CursorGone` for one of another journal or one past its head.
    """
    if cursor is None:
        return 0
    name, dot, number = cursor.rpartition(".")
    if not dot or not name or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise BadInput(f"{cursor[:80]!r} is not a cursor: it must be one that this server gave out", field="after")
    if name != journal or int(number) > head:
        raise CursorGone("this cursor belongs to another journal", advice="start from the view that comes with this")
    return int(number)
