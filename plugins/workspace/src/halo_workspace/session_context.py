"""`/session context`: what a model is given in this session, and what of it is large."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from typing import TypeVar

from halo_kernel import (
    CommandResult,
    ContextPart,
    ContextPrepared,
    Message,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UsageRecorded,
    tokens_of,
)

from .commands import Asked

B = TypeVar("B")
_LARGEST = 5


async def newest(session: Session, kind: type[B]) -> B | None:
    """Return the body of the last event of a kind."""
    found: B | None = None
    async with aclosing(session.events()) as updates:
        async for update in updates:
            body = update.event.body if update.event else None
            found = body if isinstance(body, kind) else found
    return found


async def show_context(asked: Asked) -> CommandResult:
    """Show model, tokens, tools, the prompt's sources, and what is largest."""
    info, agent = asked.info, asked.session.agent
    parts = await asyncio.to_thread(asked.prompts.compose, info, agent)
    prepared, used = await newest(asked.session, ContextPrepared), await newest(asked.session, UsageRecorded)
    _, view, messages = await asked.host.sessions.export(info.id, workspace=info.workspace, principal=asked.owner)
    model = (used and used.model) or info.model or (agent.model and agent.model.model) or "chosen when it is asked"
    thinking = (agent.model and agent.model.options.get("thinking")) or None
    sources = _sources(parts, prepared)
    sizes = Counter({f"prompt {part.source}": tokens_of(part.text) for part in parts}) + _sizes(messages)
    lines = [
        f"Model: {model}" + (f", thinking {thinking}" if thinking else ""),
        f"Tokens: {view.tokens:,} in the last call" if view.tokens else "Tokens: no call yet",
        f"At most: {agent.context_tokens:,} tokens" if agent.context_tokens else "",
        f"Tools: {', '.join(prepared.tools) or 'none'}" if prepared else "",
        f"Prompt: {', '.join(source for slot, source in sources if slot != 'skills')}",
        f"Skills: {', '.join(source for slot, source in sources if slot == 'skills')}",
        "Largest: " + ", ".join(f"{name} about {size:,}" for name, size in sizes.most_common(_LARGEST)),
    ]
    return CommandResult(text="\n".join(line for line in lines if line and not line.endswith(": ")))


def _sources(parts: Sequence[ContextPart], prepared: ContextPrepared | None) -> Sequence[tuple[str, str]]:
    """Return slot and source of each part of the last prompt, else of the next one as far as it comes from files."""
    if prepared is None:
        return [(part.slot, part.source) for part in parts]
    found = [name.partition(":") for name in prepared.parts]
    return [(slot, source) for slot, _, source in found]


def _sizes(messages: Sequence[Message]) -> Counter[str]:
    """Return about how many tokens the history takes, by what it is."""
    sizes: Counter[str] = Counter()
    names: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            match block:
                case ToolCall(id=call, name=name):
                    names[call] = name
                    what = f"calls of {name}"
                case ToolResult(call=call):
                    what = f"results of {names.get(call, 'tools')}"
                case Text() | Thinking() if message.role == "assistant":
                    what = "answers"
                case _:
                    what = "messages"
            sizes[what] += tokens_of(block)
    return sizes
