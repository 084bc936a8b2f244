"""Files, search and shell for agents."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence

from halo_kernel import HealthCheck, Host, Section, Session, Tool, WorkspaceInfo, hook

from .settings import ToolSettings

__all__ = ["ToolSettings", "provide_settings", "provide_tools", "report_health", "runtime_stopping", "workspace_opened"]

_hosts: dict[str, Host] = {}


@hook
def provide_settings() -> Iterable[Section]:
    """The section `tools`, which no workspace changes: it says how far commands below full access are confined."""
    return [Section("tools", ToolSettings, global_only=True)]


@hook
async def workspace_opened(workspace: WorkspaceInfo, host: Host) -> None:
    """Remember the host, for its settings, and find out, while others go on, whether commands can be confined here."""
    _hosts[workspace.id] = host
    host.spawn(f"look for a sandbox for {workspace.path}", _look_for_sandbox(workspace, host))


async def _look_for_sandbox(workspace: WorkspaceInfo, host: Host) -> None:
    """Say whether there is a shell below full access."""
    reason = await asyncio.to_thread(_probe)
    if reason:
        host.log.warning("no shell below full access: there is no sandbox", reason=reason, workspace=workspace.path)
    else:
        host.log.debug("shell below full access runs in bubblewrap", workspace=workspace.path)


def _probe() -> str:
    from .jail import sandbox

    return sandbox.probe()


@hook
async def report_health() -> Iterable[HealthCheck]:
    """Say how far commands below full access are confined here."""
    from .jail import sandbox

    reason = await sandbox.reason()
    if not reason:
        text = "shell commands below full access run in bubblewrap"
        return [HealthCheck(name="sandbox", ok=True, text=text)]
    text, linux = f"no shell below full access: {reason}", sys.platform.startswith("linux")
    advice = "install bubblewrap (the program bwrap), and let users make user namespaces" if linux else ""
    return [HealthCheck(name="sandbox", ok=not linux, text=text, advice=advice)]


@hook
async def runtime_stopping(host: Host) -> None:
    """Forget a host that ends."""
    for workspace in [name for name, known in _hosts.items() if known.workspaces is host.workspaces]:
        del _hosts[workspace]


@hook
def provide_tools(session: Session) -> Sequence[Tool]:
    """The tools of a session, without the shell where it could not be confined."""
    from .jail import sandbox
    from .kit import tools_for

    return tools_for(session, _hosts.get(session.info.workspace), sandbox)
