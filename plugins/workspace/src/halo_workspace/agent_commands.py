"""`/agent`: who answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from halo_kernel import AgentSpec, BadInput, CommandResult, CommandVerb, Conflict, HaloError, NotFound, WorkspaceInfo

from .commands import Asked, Verb
from .session_commands import begin


def _agents(asked: Asked) -> Sequence[AgentSpec]:
    workspace = WorkspaceInfo(id=asked.info.workspace, path=asked.info.folder)
    return [agent for agent in asked.host.workspaces.agents(workspace) if not agent.internal]


async def _find(asked: Asked) -> AgentSpec:
    """Return the agent that is named, by its id or its name. Raises `BadInput` without a word, `NotFound`."""
    wish = asked.arguments
    if not wish:
        raise BadInput("say which agent", field="agent", advice="/agent list shows those that there are")
    agents = await asyncio.to_thread(_agents, asked)
    found = [agent for agent in agents if wish in (agent.id, agent.name)]
    if not found:
        raise NotFound(f"there is no agent {wish[:80]!r} here", advice="/agent list shows those that there are")
    return next((agent for agent in found if agent.id == wish), found[0])


async def list_agents(asked: Asked) -> CommandResult:
    """List agents, the best default first."""
    lines = [_line(agent, asked.info.agent) for agent in await asyncio.to_thread(_agents, asked)]
    return CommandResult(text="\n".join(lines) or "There are no agents.")


def _line(agent: AgentSpec, here: str) -> str:
    about = " – ".join(filter(None, (agent.name if agent.name != agent.id else "", agent.description)))
    return agent.id + (f" – {about}" if about else "") + (" (this one)" if agent.id == here else "")


async def switch(asked: Asked) -> CommandResult:
    """Go on in a new session with another agent."""
    agent = await _find(asked)
    if agent.id == asked.info.agent:
        return CommandResult(text=f"This is {agent.id}.")
    made = await begin(asked, agent.id)
    return CommandResult(text=f"A new session with {agent.id}: {made.id}.", session=made.id)


async def describe(asked: Asked) -> CommandResult:
    """Tell about an agent, the session's own if none is named."""
    agent = await _find(asked) if asked.arguments else asked.session.agent
    facts = {
        "Agent": agent.id,
        "Name": agent.name,
        "About": agent.description,
        "Model": agent.model.model if agent.model else "chosen by the server",
        "Tools": "all" if agent.tools is None else ", ".join(agent.tools) or "none",
        "Team": ", ".join(agent.team or ()),
        "Defined in": agent.source if asked.level == "full" else "",
    }
    return CommandResult(text="\n".join(f"{name}: {fact}" for name, fact in facts.items() if fact))


async def delete(asked: Asked) -> CommandResult:
    """Move an agent's folder away."""
    agent = await _find(asked)
    if agent.id == asked.info.agent:
        raise Conflict("this is the agent that you talk to", advice="/agent switch to another one first")
    stamp = asked.host.clock.now()
    place = await asyncio.to_thread(_move_away, Path(agent.source), _bases(asked), stamp)
    left = [each.id for each in await asyncio.to_thread(_agents, asked)]
    again = " The home's agent of that name counts now." if agent.id in left else ""
    said = f"The agent {agent.id} is deleted, and sessions with it cannot go on. Its folder is kept as {place}."
    return CommandResult(text=said + again)


def _bases(asked: Asked) -> Sequence[Path]:
    return Path(asked.info.folder) / ".halo", asked.host.settings.home / "global"


def _move_away(folder: Path, bases: Sequence[Path], stamp: int) -> Path:
    """Move the folder of an agent to the trash beside it and return where; no link leads the way."""
    base = next((base for base in bases if folder.parent == base / "agents"), None)
    if base is None:
        raise Conflict(f"the agent {folder.name} is no folder of agents here", advice="delete it where it is defined")
    trash = base / "trash" / "agents"
    try:
        trash.mkdir(parents=True, exist_ok=True)
        for place in (folder.parent, trash):
            if place.resolve() != base.resolve() / place.relative_to(base):
                raise Conflict(f"{place} is a link", advice="move the agent's folder away yourself")
        target = trash / f"{folder.name}-{stamp}"
        os.rename(folder, target)
    except OSError as error:
        raise HaloError(f"{folder} cannot be moved: {error.strerror}") from error
    return target


AGENT_VERBS: Mapping[str, Verb] = {
    "list": Verb(CommandVerb(summary="List those that there are.", aliases=("ls",)), list_agents),
    "switch": Verb(CommandVerb(summary="Begin a session with another one.", aliases=("sw",), arguments="<id>"), switch),
    "desc": Verb(CommandVerb(summary="Tell about one.", arguments="[id]"), describe),
    "delete": Verb(CommandVerb(summary="Move one's folder away.", access="full", arguments="<id>"), delete),
}
