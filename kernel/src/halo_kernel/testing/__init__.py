"""The kit for tests of the kernel and of plugins. A server never loads it."""

from .clock import VirtualClock
from .faults import FaultyStorage
from .kernels import SimplePlugin, running_kernel
from .model import Answer, Calls, Fail, Hang, Pieces, ScriptedModel, Step
from .servers import Front, front, listening
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
    "front",
    "listening",
    "running_kernel",
]
