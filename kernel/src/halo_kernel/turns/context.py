"""The system prompt of a turn, put together from every plugin's parts in one fixed order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from .. import hookspecs
from ..access import permits
from ..contracts import Session, Tool
from ..hooks import Hooks
from ..records import Access, AgentSpec, ContextPart, ContextPrepared, Slot, ToolSpec
from ..records.storable import storable_text

_ORDER: dict[str, int] = {slot: place for place, slot in enumerate(get_args(Slot))}


@dataclass(frozen=True, kw_only=True)
class Context:
    """What stands before the conversation in every model call of a turn."""

    system: str
    tools: Mapping[str, Tool]
    event: ContextPrepared

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them, by name."""
        return tuple(tool.spec for tool in self.tools.values())


async def prepare_context(hooks: Hooks, session: Session, tools: Mapping[str, Tool], access: Access) -> Context:
    """Ask every plugin for its parts. Raises `PluginFailed` when one fails: half a prompt is worse than none."""
    found = await hooks.gather_all(hookspecs.prepare_context, session=session)
    named = [(plugin, _storable(part)) for plugin, part in found]
    parts = [part for _, part in sorted(named, key=lambda each: (_ORDER[each[1].slot], each[0], each[1].source))]
    usable = usable_tools(tools, session.agent, access)
    return Context(
        system="\n\n".join(part.text.strip() for part in parts if part.text.strip()),
        tools=usable,
        event=_event(parts, usable),
    )


def _storable(part: ContextPart) -> ContextPart:
    return ContextPart(slot=part.slot, source=storable_text(part.source), text=storable_text(part.text))


def usable_tools(tools: Mapping[str, Tool], agent: AgentSpec, access: Access) -> dict[str, Tool]:
    """Return the tools that this agent may use at this level, by name."""
    allowed = None if agent.tools is None else set(agent.tools)
    return {
        name: tool
        for name, tool in sorted(tools.items())
        if (allowed is None or name in allowed) and permits(access, tool.spec)
    }


def _event(parts: list[ContextPart], tools: Mapping[str, Tool]) -> ContextPrepared:
    digests = {f"{part.slot}:{part.source}": _digest(part.text) for part in parts}
    specs = "".join(f"{tool.spec!r}" for tool in tools.values())
    return ContextPrepared(
        digest=_digest("".join(part.text for part in parts) + specs), parts=digests, tools=tuple(tools)
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
