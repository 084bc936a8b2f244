"""Sessions: opened once, owned by one process, one run at a time."""

from .dues import Outbox as Outbox
from .dues import Questions as Questions
from .prompts import Prompt as Prompt
from .registry import Sessions as Sessions
from .session import Session as Session
