"""Keeps long conversations within what a model takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from halo_kernel import hook

from .settings import CompactSettings

if TYPE_CHECKING:
    from halo_kernel import ContextCut, Host, ModelRequest, Piece, Section, Session, ShrinkReason, WorkspaceInfo

__all__ = ["CompactSettings", "provide_settings", "runtime_stopping", "shrink_context", "workspace_opened"]

_places: dict[str, tuple[WorkspaceInfo, Host]] = {}


@hook
def provide_settings() -> Iterable[Section]:
    """The section `compact`."""
    from halo_kernel import Section

    return [Section("compact", CompactSettings)]


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Remember the host, for its settings."""
    _places[workspace.id] = workspace, host


@hook
async def runtime_stopping(host: Host) -> None:
    """Forget a host that ends."""
    for name in [name for name, (_, known) in _places.items() if known.workspaces is host.workspaces]:
        del _places[name]


@hook
async def shrink_context(
    reason: ShrinkReason, session: Session, request: ModelRequest, history: Sequence[Piece]
) -> ContextCut | None:
    """Summarise the older messages, and clear old results of tools among those that stay."""
    from .shrink import Compaction

    workspace, host = _places[session.info.workspace]
    settings = host.settings.of(CompactSettings, workspace)
    return await Compaction(session=session, reason=reason, settings=settings).cut(request, history)
