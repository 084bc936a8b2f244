"""The kit for tests of the kernel and of plugins. A server never loads it."""

from .clock import VirtualClock
from .faults import FaultyStorage
from .kernels import SimplePlugin, running_kernel
from .model import Answer, Calls, Fail, Hang, Pieces, ScriptedModel, Step
from .servers import Front, front, listening
from .sessions import a_session, journal, until
from .tool import NoteTool

__all__ = [
    "Answer",
    "Calls",
    "Fail",
    "FaultyStorage",
    "Front",
    "Hang",
    "NoteTool",
    "Pieces",
    "ScriptedModel",
    "SimplePlugin",
    "Step",
    "VirtualClock",
    "a_session",
    "front",
    "journal",
    "listening",
    "running_kernel",
    "until",
]
