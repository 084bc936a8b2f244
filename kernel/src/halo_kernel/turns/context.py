"""The system prompt of a turn, put together from every plugin's parts in one fixed order."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import get_args

from .. import hookspecs
from ..access import permits
from ..contracts import Session, Tool
from ..hooks import Hooks
from ..records import Access, ContextPrepared, Slot
from ..records.storable import storable_text

_ORDER: dict[str, int] = {slot: place for place, slot in enumerate(get_args(Slot))}


@dataclass(frozen=True, kw_only=True)
class Context:
    """What stands before the conversation in every model call of a turn."""

    system: str
    tools: Mapping[str, Tool]
    event: ContextPrepared


async def prepare_context(hooks: Hooks, session: Session, tools: Mapping[str, Tool], access: Access) -> Context:
    """Ask every plugin for its parts. Raises `PluginFailed` when one fails: half a prompt is worse than none."""
    found = await hooks.gather_all(hookspecs.prepare_context, session=session)
    found.sort(key=lambda each: (_ORDER[each[1].slot], each[0], each[1].source))
    parts = [(f"{part.slot}:{storable_text(part.source)}", storable_text(part.text)) for _, part in found]
    texts = [text for _, text in parts]
    usable = _usable(tools, session.agent.tools, access)
    specs = "".join(f"{tool.spec!r}" for tool in usable.values())
    event = ContextPrepared(
        digest=_digest("".join(texts) + specs),
        parts={name: _digest(text) for name, text in parts},
        tools=tuple(usable),
    )
    return Context(system="\n\n".join(filter(None, map(str.strip, texts))), tools=usable, event=event)


def _usable(tools: Mapping[str, Tool], allowed: Collection[str] | None, access: Access) -> dict[str, Tool]:
    """Return the tools that an agent may use at this level, by name; None allows all of them."""
    return {
        name: tool
        for name, tool in sorted(tools.items())
        if (allowed is None or name in allowed or not tool.spec.listed) and permits(access, tool.spec)
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
