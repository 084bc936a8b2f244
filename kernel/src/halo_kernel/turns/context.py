"""What a turn shows a model: the system prompt, of every plugin's parts in one order, and the history."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import get_args

from .. import hookspecs
from ..access import permits
from ..contracts import Tool
from ..errors import PromptTooLarge
from ..records import Access, ContextPrepared, ModelChoice, ModelRequest, Offer, Slot, tokens_of
from ..records.storable import storable_text
from .desk import Desk

_NAMED = 5
_ORDER: dict[str, int] = {slot: place for place, slot in enumerate(get_args(Slot))}


@dataclass(frozen=True, kw_only=True)
class Context:
    """What stands before the conversation in every model call of a turn, and how much there may be in all.

    `line` are the models that are asked in order, `model` was its first. `fixed` and `limit` count tokens.
    """

    desk: Desk
    system: str
    tools: Mapping[str, Tool]
    event: ContextPrepared
    line: list[Offer]
    model: str
    fixed: int
    limit: int

    @property
    def is_full(self) -> bool:
        """Whether it is time to make room."""
        part = self.desk.session.agent.compress_at or self.desk.place.agents.compress_at
        return self.desk.history.size(self.fixed) > self.limit * part

    def request(self) -> ModelRequest:
        """Return the next call."""
        wish = self.desk.session.agent.model or ModelChoice(model="")
        return ModelRequest(
            model=self.model,
            system=self.system,
            messages=self.desk.shown.messages(),
            tools=tuple(tool.spec for tool in self.tools.values()),
            max_tokens=wish.max_tokens,
            endpoint=wish.endpoint,
            session=self.desk.session.info.id,
            options=wish.options,
        )


async def prepare_context(desk: Desk, access: Access) -> Context:
    """Ask every plugin for its parts. Raises `PluginFailed` when one fails: half a prompt is worse than none.

    Raises `PromptTooLarge` when these alone do not fit.
    """
    place, session = desk.place, desk.session
    found = await replace(place.hooks, strict=True).gather(hookspecs.prepare_context, session=session)
    found.sort(key=lambda each: (_ORDER[each[1].slot], each[0], each[1].source))
    parts = [(part.slot, storable_text(part.source), storable_text(part.text)) for _, part in found]
    usable = _usable(desk.tools, session.agent.tools, access)
    specs = [("tools", name, repr(tool.spec)) for name, tool in usable.items()]
    event = ContextPrepared(
        digest=_digest("".join(text for *_, text in (*parts, *specs))),
        parts={f"{slot}:{source}": _digest(text) for slot, source, text in parts},
        tools=tuple(usable),
    )
    line = await place.models.line(session, place.hooks)
    limit = session.agent.context_tokens or line[0].context_window
    return Context(
        desk=desk,
        system="\n\n".join(filter(None, (text.strip() for *_, text in parts))),
        tools=usable,
        event=event,
        line=line,
        model=line[0].model,
        fixed=_fixed([(slot, source, tokens_of(text)) for slot, source, text in (*parts, *specs)], limit),
        limit=limit,
    )


def _fixed(sizes: Sequence[tuple[str, str, int]], limit: int) -> int:
    """Return how many tokens all of this takes. Raises `PromptTooLarge`."""
    total = sum(size for *_, size in sizes)
    if total > limit:
        largest = sorted(sizes, key=itemgetter(2), reverse=True)[:_NAMED]
        named = ", ".join(f"{slot} {source} ({size})" for slot, source, size in largest)
        said = f"prompt and tools take about {total} tokens, the context has {limit}; the largest are {named}"
        advice = "make these shorter, or use a model with a larger context"
        raise PromptTooLarge(said, contributors=largest, advice=advice)
    return total


def _usable(tools: Mapping[str, Tool], allowed: Collection[str] | None, access: Access) -> dict[str, Tool]:
    """Return the tools that an agent may use at this level, by name; None allows all of them."""
    return {
        name: tool
        for name, tool in sorted(tools.items())
        if (allowed is None or name in allowed or not tool.spec.listed) and permits(access, tool.spec)
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
