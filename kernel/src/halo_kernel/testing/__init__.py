"""The kit for tests of the kernel and of plugins. A server never loads it.

Everything is a flat name of this package, imported when it is asked for: the contract suites need pytest, the rest does
not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .anthropic_server import ScriptedAnthropic as ScriptedAnthropic
    from .blocking import LIMIT as LIMIT
    from .blocking import Block as Block
    from .blocking import LoopWatch as LoopWatch
    from .channel_contract import ChannelContract as ChannelContract
    from .channel_contract import Platform as Platform
    from .channel_contract import Posted as Posted
    from .client import WireReply as WireReply
    from .client import WireRequest as WireRequest
    from .clock import SteppedClock as SteppedClock
    from .clock import VirtualClock as VirtualClock
    from .crashes import CrashingStorage as CrashingStorage
    from .crashes import CrashPoint as CrashPoint
    from .crashes import CrashPoints as CrashPoints
    from .dispatcher_contract import DispatcherContract as DispatcherContract
    from .faults import FaultyStorage as FaultyStorage
    from .findings import Finding as Finding
    from .findings import assert_plugin_ok as assert_plugin_ok
    from .findings import check_plugin as check_plugin
    from .guards import guarded as guarded
    from .kernels import SimplePlugin as SimplePlugin
    from .kernels import running_kernel as running_kernel
    from .leaks import KINDS as KINDS
    from .leaks import Kind as Kind
    from .leaks import LeakGuard as LeakGuard
    from .line import LineChannel as LineChannel
    from .model import Answer as Answer
    from .model import Calls as Calls
    from .model import Fail as Fail
    from .model import Hang as Hang
    from .model import Pieces as Pieces
    from .model import ScriptedModel as ScriptedModel
    from .model import Step as Step
    from .model_contract import ModelContract as ModelContract
    from .openai_server import ScriptedOpenAI as ScriptedOpenAI
    from .postbox import Lost as Lost
    from .postbox import Postbox as Postbox
    from .postbox import Refused as Refused
    from .protocol_contract import ProtocolContract as ProtocolContract
    from .scripts import Script as Script
    from .scripts import ScriptedCall as ScriptedCall
    from .servers import Front as Front
    from .servers import front as front
    from .servers import listening as listening
    from .service_contract import ServiceContract as ServiceContract
    from .sessions import a_session as a_session
    from .sessions import journal as journal
    from .sessions import until as until
    from .storage_contract import StorageContract as StorageContract
    from .tool import NoteTool as NoteTool
    from .tool_contract import ToolContract as ToolContract
    from .workbench import Workbench as Workbench

_HOMES = {
    "anthropic_server": ("ScriptedAnthropic",),
    "blocking": ("LIMIT", "Block", "LoopWatch"),
    "channel_contract": ("ChannelContract", "Platform", "Posted"),
    "client": ("WireReply", "WireRequest"),
    "clock": ("SteppedClock", "VirtualClock"),
    "crashes": ("CrashPoint", "CrashPoints", "CrashingStorage"),
    "dispatcher_contract": ("DispatcherContract",),
    "faults": ("FaultyStorage",),
    "findings": ("Finding", "assert_plugin_ok", "check_plugin"),
    "guards": ("guarded",),
    "kernels": ("SimplePlugin", "running_kernel"),
    "leaks": ("KINDS", "Kind", "LeakGuard"),
    "line": ("LineChannel",),
    "model": ("Answer", "Calls", "Fail", "Hang", "Pieces", "ScriptedModel", "Step"),
    "model_contract": ("ModelContract",),
    "openai_server": ("ScriptedOpenAI",),
    "scripts": ("Script", "ScriptedCall"),
    "postbox": ("Lost", "Postbox", "Refused"),
    "protocol_contract": ("ProtocolContract",),
    "servers": ("Front", "front", "listening"),
    "service_contract": ("ServiceContract",),
    "sessions": ("a_session", "journal", "until"),
    "storage_contract": ("StorageContract",),
    "tool": ("NoteTool",),
    "tool_contract": ("ToolContract",),
    "workbench": ("Workbench",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module 'halo_kernel.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [name for names in _HOMES.values() for name in names]
