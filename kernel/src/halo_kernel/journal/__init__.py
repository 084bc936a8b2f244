"""A session's append-only journal, the only truth about it, and its live feed."""

from .erase import *  # noqa: F403
from .feed import *  # noqa: F403
from .snapshots import *  # noqa: F403
from .store import *  # noqa: F403
