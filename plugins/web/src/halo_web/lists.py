"""What the page lists: workspaces, models, agents, sessions, and a session's history."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from msgspec import Struct

from halo_kernel import (
    BadInput,
    Exchange,
    Host,
    Item,
    Kernel,
    Offer,
    Reply,
    Route,
    SessionInfo,
    WorkspaceInfo,
    WorkspaceUnusable,
)

from .chat import query_of

_PAGE = 50
_MILLISECONDS = re.compile(r"[0-9]{1,15}")


class AgentLine(Struct, frozen=True):
    """An agent that a person can talk to."""

    id: str
    name: str
    description: str


class WorkspaceList(Struct, frozen=True):
    """The workspaces of this home, newest use first."""

    workspaces: Sequence[WorkspaceInfo]


class WorkspaceRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder on the server's machine, to be opened as a workspace; without one, the home's own."""

    path: str = ""


class ModelList(Struct, frozen=True, kw_only=True):
    """The models, best first; `chosen` answers a new turn, `reason` says why it, or why none."""

    models: Sequence[Offer]
    chosen: str | None
    reason: str


class AgentList(Struct, frozen=True):
    """The agents of a workspace, best default first."""

    agents: Sequence[AgentLine]


class SessionList(Struct, frozen=True):
    """A page of root sessions, newest first; `cursor` asks for the next page, null after the last."""

    sessions: Sequence[SessionInfo]
    cursor: str | None


class SessionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A new, empty session."""

    workspace: str
    agent: str | None = None


class NewSession(Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of a new session."""

    session_id: str


class History(Struct, frozen=True, kw_only=True, rename="camel"):
    """What people see of a session so far; `cursor` is where to subscribe from."""

    messages: Sequence[Item]
    session_id: str | None = None
    running: bool = False
    title: str = ""
    cursor: str | None = None


def milliseconds_of(exchange: Exchange, name: str) -> int | None:
    """Return a query parameter in UTC milliseconds, None when it is not there. Raises `BadInput`."""
    raw = exchange.query.get(name)
    if raw is not None and not _MILLISECONDS.fullmatch(raw):
        raise BadInput(f"{name} must be a time in milliseconds, digits only, not {raw[:80]!r}", field=name)
    return None if raw is None else int(raw)


@dataclass(frozen=True)
class _Lists:
    host: Host

    async def workspaces(self, exchange: Exchange) -> WorkspaceList:
        return WorkspaceList(await self.host.workspaces.list())

    async def open(self, exchange: Exchange) -> WorkspaceInfo:
        assert isinstance(exchange.body, WorkspaceRequest)
        named, own = exchange.body.path.strip(), self.host.settings.home / "workspaces" / "default"
        if named:
            return await self.host.workspaces.open(named)
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkspaceUnusable(f"the folder {own} cannot be made: {error.strerror}") from error
        return await self.host.workspaces.open(own)

    async def models(self, exchange: Exchange) -> ModelList:
        offers, chosen, reason = await cast("Kernel", self.host.lookup("kernel", "")).models()
        return ModelList(models=offers, chosen=chosen.model if chosen else None, reason=reason)

    async def agents(self, exchange: Exchange) -> AgentList:
        workspace = await self.host.workspaces.get(query_of(exchange, "workspace"))
        agents = self.host.workspaces.agents(workspace)
        return AgentList([AgentLine(agent.id, agent.name, agent.description) for agent in agents if not agent.internal])

    async def sessions(self, exchange: Exchange) -> SessionList:
        rows = await self.host.sessions.list(
            workspace=query_of(exchange, "workspace"),
            principal=exchange.principal,
            before=milliseconds_of(exchange, "cursor"),
            limit=_PAGE,
        )
        return SessionList(rows, str(rows[-1].updated_at) if len(rows) == _PAGE else None)

    async def create(self, exchange: Exchange) -> Reply:
        assert isinstance(exchange.body, SessionRequest)
        session = await self.host.sessions.create(
            workspace=exchange.body.workspace, principal=exchange.principal, agent=exchange.body.agent, origin="web"
        )
        return Reply(body=NewSession(session_id=session.info.id), status=201)

    async def history(self, exchange: Exchange) -> History:
        since = milliseconds_of(exchange, "since") or 0
        workspace = query_of(exchange, "workspace")
        if not exchange.query.get("session"):
            return History(messages=[])
        session = exchange.query["session"]
        view, cursor = await self.host.sessions.view(session, workspace=workspace, principal=exchange.principal)
        return History(
            messages=[item for item in view.items.values() if item.at >= since],
            session_id=session,
            running=bool(view.running),
            title=view.title,
            cursor=cursor,
        )


def list_routes(host: Host) -> list[Route]:
    """Return the routes of the page's lists."""
    on = _Lists(host)
    path = "/api/page"
    return [
        Route(
            method="GET",
            path=f"{path}/workspaces",
            handler=on.workspaces,
            reply=WorkspaceList,
            summary="List workspaces for the page",
        ),
        Route(
            method="POST",
            path=f"{path}/workspaces",
            handler=on.open,
            request=WorkspaceRequest,
            reply=WorkspaceInfo,
            summary="Open a folder as a workspace",
        ),
        Route(
            method="GET",
            path=f"{path}/models",
            handler=on.models,
            reply=ModelList,
            summary="List models and the choice for the page",
        ),
        Route(
            method="GET",
            path=f"{path}/agents",
            handler=on.agents,
            reply=AgentList,
            summary="List the agents that a person can talk to",
        ),
        Route(
            method="GET",
            path=f"{path}/sessions",
            handler=on.sessions,
            reply=SessionList,
            summary="List root sessions, 50 a page",
        ),
        Route(
            method="POST",
            path=f"{path}/sessions",
            handler=on.create,
            request=SessionRequest,
            reply=NewSession,
            summary="Make an empty session",
        ),
        Route(
            method="GET",
            path=f"{path}/history",
            handler=on.history,
            reply=History,
            summary="Show what people see of a session",
        ),
    ]
