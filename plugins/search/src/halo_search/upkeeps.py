"""The upkeep of each workspace that was opened."""

from __future__ import annotations

from halo_kernel import Host, WorkspaceInfo

from .upkeep import Upkeep

_upkeeps: dict[str, Upkeep] = {}


def begin(host: Host, workspace: WorkspaceInfo) -> Upkeep:
    """Return a workspace's upkeep, a new one if there is none of this host."""
    known = _upkeeps.get(workspace.id)
    if known is None or known.host.workspaces is not host.workspaces:
        known = _upkeeps[workspace.id] = Upkeep(host, workspace)
    return known


def find(workspace: str) -> Upkeep | None:
    """Return a workspace's upkeep, None if it was not opened."""
    return _upkeeps.get(workspace)


async def upkeep_of(host: Host, workspace: str) -> Upkeep:
    """Return a workspace's upkeep by its id, opening it. Raises `NotFound`, `WorkspaceUnusable`."""
    return begin(host, await host.workspaces.get(workspace))


def end(host: Host) -> None:
    """Forget what is of a host that ends."""
    for workspace in [name for name, known in _upkeeps.items() if known.host.workspaces is host.workspaces]:
        del _upkeeps[workspace]
