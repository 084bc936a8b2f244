"""A session's append-only journal, the only truth about it, and its live feed."""

from .erase import erase as erase
from .feed import Feed as Feed
from .snapshots import EVERY as EVERY
from .snapshots import folded as folded
from .snapshots import keep_folds as keep_folds
from .store import append as append
from .store import find as find
from .store import journal_of as journal_of
from .store import keep_partial as keep_partial
from .store import last_answer as last_answer
from .store import make_cursor as make_cursor
from .store import read as read
from .store import read_partial as read_partial
from .store import read_turn as read_turn
