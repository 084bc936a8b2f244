"""Sub-sessions: agents that start, ask and stop sessions of other agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from halo_kernel import ContextPart, Extension, Host, PreparedInput, Session, Tool, Turn, WorkspaceInfo, hook

__all__ = ["extend_turn", "prepare_context", "prepare_input", "provide_tools", "runtime_stopping", "workspace_opened"]

# Hooks are free functions, and those about a session are not handed the host: what it told is kept by workspace id.
_hosts: dict[str, Host] = {}


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Remember the host, for the workspace's agents and sessions."""
    _hosts[workspace.id] = host


@hook
async def runtime_stopping(host: Host) -> None:
    """Forget a host that ends."""
    for workspace in [name for name, known in _hosts.items() if known.workspaces is host.workspaces]:
        del _hosts[workspace]


@hook
def provide_tools(session: Session) -> Sequence[Tool]:
    """The tools about sessions for an agent with a team, and `continue_task`."""
    from .tools import tools_for

    return tools_for(session, _hosts[session.info.workspace])


@hook
async def prepare_context(session: Session) -> Iterable[ContextPart]:
    """List the agent's team in its prompt."""
    from .roster import can_delegate, read_roster

    if not can_delegate(session.agent):
        return []
    text = await asyncio.to_thread(read_roster, _hosts[session.info.workspace], session.info, session.agent)
    return [ContextPart(slot="team", source="roster", text=text)] if text else []


@hook
async def prepare_input(batch: Sequence[PreparedInput], session: Session, turn: Turn) -> Sequence[PreparedInput]:
    """Say after reports which sessions still work, and after an interrupt that nothing is taken up by itself."""
    from .notes import noted

    return await noted(batch, session, turn, _hosts[session.info.workspace])


@hook
async def extend_turn(turn: Turn, session: Session) -> Iterable[Extension]:
    """Let the work go on for which the turn called `continue_task`."""
    from .resuming import follow

    return await follow(turn, session)
