"""A session's append-only journal, the only truth about it, and its live feed."""

from .cursor import make_cursor, parse_cursor
from .feed import Feed
from .store import append, journal_of, last_answer, last_end, read, read_partial, read_turn

__all__ = [
    "Feed",
    "append",
    "journal_of",
    "last_answer",
    "last_end",
    "make_cursor",
    "parse_cursor",
    "read",
    "read_partial",
    "read_turn",
]
