"""Sessions: opened once, owned by one process, one run at a time."""

from .dues import Outbox as Outbox
from .dues import Questions as Questions
from .prompts import Prompt as Prompt
from .registry import Sessions as Sessions
from .rows import MAX_ID as MAX_ID
from .session import LiveSession as LiveSession
