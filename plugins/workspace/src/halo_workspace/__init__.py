"""Agents, prompts and seeds as files in a workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from halo_kernel import AgentSource, ContextPart, HaloError, Host, PreparedInput, Session, WorkspaceInfo, hook

if TYPE_CHECKING:
    from .catalog import Catalog

# Hooks are free functions, and those about a session are not handed the host: what it told is kept by workspace id.
_catalogs: dict[str, Catalog] = {}


@hook
def provide_agents(host: Host) -> Iterable[AgentSource]:
    """Find agents in the workspace's folders, then in the home's."""
    from .catalog import Catalog

    return (Catalog(host.settings.home, host.log),)


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Seed the home and the workspace. Raises `HaloError` for a folder that cannot be written."""
    from .catalog import Catalog
    from .seeds import seed_home, seed_workspace

    home = host.settings.home
    _catalogs[workspace.id] = Catalog(home, host.log)
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
    for workspace in [name for name, catalog in _catalogs.items() if catalog.home == home]:
        del _catalogs[workspace]


@hook
async def prepare_context(session: Session) -> Iterable[ContextPart]:
    """Give the prompt's parts from files. Raises `BadFile` for one that is there and cannot be read."""
    from .prompts import compose

    return await asyncio.to_thread(compose, session.info, session.agent, _catalog(session))


@hook
async def prepare_input(batch: Sequence[PreparedInput], session: Session) -> Sequence[PreparedInput]:
    """Put the arrival stamp before what the model sees, and files in the place of `@file` references."""
    from .references import prepare

    home = str(_catalog(session).home)
    return await asyncio.to_thread(prepare, batch, folder=session.info.folder, home=home, access=session.info.access)


def _catalog(session: Session) -> Catalog:
    found = _catalogs.get(session.info.workspace)
    if found is None:
        raise HaloError(f"the workspace {session.info.folder} was not opened")
    return found
