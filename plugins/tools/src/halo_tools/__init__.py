"""Files, search and shell for agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from halo_kernel import Host, Section, Session, Tool, WorkspaceInfo, hook

from .jail import Bubblewrap
from .kit import tools_for
from .settings import ToolSettings

__all__ = ["ToolSettings", "provide_settings", "provide_tools", "runtime_stopping", "workspace_opened"]

_hosts: dict[str, Host] = {}
_sandbox = Bubblewrap()


@hook
def provide_settings() -> Iterable[Section]:
    """The section `tools`."""
    return [Section("tools", ToolSettings)]


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Remember the host, for its settings, and say whether commands below full access can be confined here."""
    _hosts[workspace.id] = host
    reason = await _sandbox.reason()
    if reason:
        host.log.warning("no shell below full access: there is no sandbox", reason=reason, workspace=workspace.path)
    else:
        host.log.debug("shell below full access runs in bubblewrap", workspace=workspace.path)


@hook
async def runtime_stopping(host: Host) -> None:
    """Forget a host that ends."""
    for workspace in [name for name, known in _hosts.items() if known is host]:
        del _hosts[workspace]


@hook
def provide_tools(session: Session) -> Sequence[Tool]:
    """The tools of a session, without the shell where it could not be confined."""
    return tools_for(session, _hosts.get(session.info.workspace), _sandbox)
