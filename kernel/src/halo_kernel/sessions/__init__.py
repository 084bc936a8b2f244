"""Sessions: opened once, owned by one process, one run at a time."""

from .asked import Questions
from .owed import Outbox
from .registry import Sessions
from .rows import MAX_ID
from .session import LiveSession

__all__ = ["MAX_ID", "LiveSession", "Outbox", "Questions", "Sessions"]
