"""Agents, prompts and seeds as files in a workspace, and the commands that people have there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from halo_kernel import (
    AgentSource,
    AgentSpec,
    Command,
    CommandSpec,
    ContextPart,
    HaloError,
    Host,
    NotFound,
    PreparedInput,
    Session,
    WorkspaceInfo,
    hook,
)

if TYPE_CHECKING:
    from .prompts import Prompts

# Hooks are free functions, and those about a session are not handed the host: what it told is kept by workspace id.
_prompts: dict[str, Prompts] = {}
_hosts: dict[str, Host] = {}


@hook
def provide_agents(host: Host) -> Iterable[AgentSource]:
    """Find agents in the workspace's folders, then in the home's."""
    from .catalog import Catalog

    return (Catalog(host.settings.home, host.log),)


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Seed the home and the workspace. Raises `HaloError` for a folder that cannot be written."""
    from .catalog import Catalog
    from .prompts import Prompts
    from .seeds import seed_home, seed_workspace

    home = host.settings.home
    _prompts[workspace.id], _hosts[workspace.id] = Prompts(Catalog(home, host.log)), host
    for written in (
        await asyncio.to_thread(seed_home, home),
        await asyncio.to_thread(seed_workspace, workspace, home),
    ):
        if written:
            host.log.info("files seeded", workspace=workspace.path, files=written)


@hook
async def runtime_stopping(host: Host) -> None:
    """Forget the workspaces of this home."""
    home = host.settings.home
    for workspace in [name for name, prompts in _prompts.items() if prompts.home == home]:
        del _prompts[workspace], _hosts[workspace]


@hook
async def prepare_context(session: Session) -> Iterable[ContextPart]:
    """Give the prompt's parts from files.

    Raises `BadFile` for one that is there and cannot be read, `NotFound` when the session's agent is gone: the kernel
    has an empty one in its place, so that the session can be looked at, left and deleted.
    """
    agent = session.agent.id
    if session.agent == AgentSpec(id=agent, name=agent, tools=()):
        raise NotFound(f"there is no agent {agent} any more", advice="put it back, or go on with `/session new`")
    prompts = _prompts_of(session)
    kept = prompts.kept(session.info, session.agent)
    return await asyncio.to_thread(prompts.compose, session.info, session.agent) if kept is None else kept


@hook
async def prepare_input(batch: Sequence[PreparedInput], session: Session) -> Sequence[PreparedInput]:
    """Put the arrival stamp before what the model sees, and files in the place of `@file` references."""
    from .references import prepare, stamped

    if not any("@" in row.content for row in batch):
        return stamped(batch)
    home = str(_prompts_of(session).home)
    return await asyncio.to_thread(prepare, batch, folder=session.info.folder, home=home, access=session.info.access)


@hook
async def list_commands(session: Session) -> Iterable[CommandSpec]:
    """Give `/session`, `/agent` and `/help`."""
    from .commands import specs

    return specs()


@hook
async def resolve_command(name: str, session: Session) -> Command | None:
    """Give one of them, by its name or a short form."""
    from .commands import resolve

    prompts = _prompts_of(session)
    return resolve(name, _hosts[session.info.workspace], prompts)


def _prompts_of(session: Session) -> Prompts:
    found = _prompts.get(session.info.workspace)
    if found is None:
        raise HaloError(f"the workspace {session.info.folder} was not opened")
    return found
