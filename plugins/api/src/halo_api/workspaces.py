"""Workspaces and the agents in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

from msgspec import Struct

from halo_kernel import AgentSpec, BadInput, Exchange, Forbidden, Host, Reply, Route, WorkspaceInfo


class WorkspaceRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The directory to open as a workspace, absolute; with `new_id` one that is open nowhere gets a new id."""

    path: str
    new_id: bool = False


class WorkspaceList(Struct, frozen=True):
    """The workspaces of this home, newest use first."""

    workspaces: Sequence[WorkspaceInfo]


class AgentList(Struct, frozen=True):
    """The agents that can run in a workspace, best default first."""

    agents: Sequence[AgentSpec]


@dataclass(frozen=True)
class _Workspaces:
    host: Host

    async def list(self, exchange: Exchange) -> WorkspaceList:
        return WorkspaceList(await self.host.workspaces.list())

    async def open(self, exchange: Exchange) -> Reply:
        assert isinstance(exchange.body, WorkspaceRequest)
        _refuse_less(exchange)
        path = absolute(exchange.body.path, "path")
        return Reply(body=await self.host.workspaces.open(path, anew=exchange.body.new_id), status=201)

    async def forget(self, exchange: Exchange) -> None:
        _refuse_less(exchange)
        await self.host.workspaces.forget(exchange.params["workspace"])

    async def agents(self, exchange: Exchange) -> AgentList:
        workspace = await self.host.workspaces.get(exchange.params["workspace"])
        return AgentList(self.host.workspaces.agents(workspace))


def absolute(path: str, field: str) -> str:
    """Return a path of either kind of system. Raises `BadInput` for one that depends on where we are."""
    if not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()):
        raise BadInput(f"{field} must be absolute, not {path!r}", field=field)
    return path


def _refuse_less(exchange: Exchange) -> None:
    if exchange.principal.access != "full":
        raise Forbidden("opening a directory as a workspace, or forgetting it, takes full access")


def workspace_routes(host: Host) -> list[Route]:
    """Return the routes of workspaces and agents."""
    on = _Workspaces(host)
    path = "/api/workspaces"
    return [
        Route(method="GET", path=path, handler=on.list, reply=WorkspaceList, summary="List workspaces"),
        Route(
            method="POST",
            path=path,
            handler=on.open,
            request=WorkspaceRequest,
            reply=WorkspaceInfo,
            summary="Open a directory as a workspace",
        ),
        Route(
            method="DELETE",
            path=f"{path}/{{workspace}}",
            handler=on.forget,
            summary="Forget a workspace, and leave its directory as it is",
        ),
        Route(
            method="GET",
            path=f"{path}/{{workspace}}/agents",
            handler=on.agents,
            reply=AgentList,
            summary="List the agents of a workspace",
        ),
    ]
