"""A session's append-only journal, the only truth about it, and its live feed."""

from .cursor import make_cursor
from .erase import erase
from .feed import Feed
from .snapshots import EVERY, folded, keep_folds
from .store import append, find, journal_of, keep_partial, last_answer, read, read_partial, read_turn

__all__ = [
    "EVERY",
    "Feed",
    "append",
    "erase",
    "find",
    "folded",
    "journal_of",
    "keep_folds",
    "keep_partial",
    "last_answer",
    "make_cursor",
    "read",
    "read_partial",
    "read_turn",
]
