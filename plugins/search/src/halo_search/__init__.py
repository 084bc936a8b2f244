"""Search over all sessions of a workspace, in any script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from halo_kernel import hook

if TYPE_CHECKING:
    from halo_kernel import Host, Route, SessionInfo, WorkspaceInfo


@hook
def provide_routes(host: Host) -> Iterable[Route]:
    """Provide the routes under `/api/workspaces/{workspace}/search`."""
    from .routes import search_routes

    return search_routes(host)


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Begin to keep its index up to date."""
    from . import upkeeps

    upkeeps.begin(host, workspace).hint()


@hook
async def run_finished(session: SessionInfo) -> None:
    """Index what was said, soon."""
    from . import upkeeps

    if upkeep := upkeeps.find(session.workspace):
        upkeep.hint()


@hook
async def session_erased(session: SessionInfo) -> None:
    """Take out of the index what was erased, before who asked for it is told that it is gone; sessions a bit later."""
    from . import upkeeps

    if (upkeep := upkeeps.find(session.workspace)) and session.deleted:
        upkeep.hint()
    elif upkeep:
        await upkeep.catch_up_with(session)


@hook
async def runtime_stopping(host: Host) -> None:
    """Forget the workspaces of a host that ends."""
    from . import upkeeps

    upkeeps.end(host)
