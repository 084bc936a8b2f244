"""The tools that one session gets."""

from __future__ import annotations

import os
from collections.abc import Sequence

from halo_kernel import Host, Session, Tool
from halo_lib_files import SUPPORTED

from . import files, search
from .jail import Bubblewrap
from .ripgrep import Searcher
from .settings import ToolSettings
from .shell import SHELL, Shell, ShellArguments
from .work import Operation, Place, Work


def tools_for(session: Session, host: Host | None, sandbox: Bubblewrap) -> Sequence[Tool]:
    """Return the tools of a session; none where files cannot be opened safely (Windows)."""
    if not SUPPORTED:
        return []
    place = place_of(session, host)
    searcher = Searcher(sandbox)

    async def grep(work: Work[search.GrepArguments]) -> str:
        return await search.grep(work, searcher)

    tools: list[Tool] = [
        Operation(files.READ, files.ReadArguments, place, files.file_read),
        Operation(files.WRITE, files.WriteArguments, place, files.file_write),
        Operation(files.EDIT, files.EditArguments, place, files.file_edit),
        Operation(files.LIST, files.ListArguments, place, files.file_list),
        Operation(search.GLOB, search.GlobArguments, place, search.glob),
        Operation(search.GREP, search.GrepArguments, place, grep),
    ]
    if has_shell(session, sandbox):
        tools.append(Operation(SHELL, ShellArguments, place, Shell(sandbox).execute))
    return tools


def has_shell(session: Session, sandbox: Bubblewrap) -> bool:
    """Tell whether a session gets the shell: never readonly ones, others where it can be confined."""
    access = session.info.access
    return access == "full" or (access == "workspace" and not sandbox.probe())


def place_of(session: Session, host: Host | None) -> Place:
    """Return where a session's tools work; without a host with the settings' defaults."""

    async def others() -> Sequence[str]:
        return [] if host is None else [each.path for each in await host.workspaces.list()]

    home = str(host.settings.home) if host else os.environ.get("HALO_HOME") or os.path.expanduser("~/.halo")
    return Place(
        folder=os.path.realpath(session.info.folder),
        home=os.path.realpath(home),
        settings=host.settings.of(ToolSettings) if host else ToolSettings(),
        others=others,
    )
