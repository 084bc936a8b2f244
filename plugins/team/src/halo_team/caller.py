"""Who calls a tool: a session, what it may reach of its tree, and whom it may ask of its team."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from halo_kernel import (
    AgentSpec,
    BadInput,
    Call,
    Conflict,
    Host,
    Incoming,
    Mode,
    NotFound,
    Principal,
    Session,
    SessionInfo,
    WorkspaceInfo,
)

from .roster import members


@dataclass(frozen=True)
class Caller:
    """The session behind a call."""

    call: Call
    host: Host

    @property
    def info(self) -> SessionInfo:
        """The session, as of now."""
        return self.call.session.info

    @property
    def workspace(self) -> WorkspaceInfo:
        """Where it works."""
        return WorkspaceInfo(id=self.info.workspace, path=self.info.folder)

    async def session(self, name: str) -> Session:
        """Return a session of the caller's own tree. Raises `NotFound`, for one of another tree too."""
        try:
            found = await open_session(self.host, self.info, name)
        except (NotFound, BadInput):
            raise NotFound(f"session {name} not found") from None
        if found.info.root != self.info.root:
            raise NotFound(f"session {name} not found")
        return found

    async def below(self, name: str, act: str) -> Session:
        """Return a session that the caller may `act` upon: any of its tree but itself and those above it.

        Raises `NotFound`, and `Conflict` for what would end the caller too.
        """
        found = await self.session(name)
        if found.info.id in [info.id async for info in self.line()]:
            raise Conflict(f"cannot {act} session {name}: it is this session or one above it")
        return found

    async def line(self) -> AsyncGenerator[SessionInfo]:
        """Yield the caller and every session above it."""
        info = self.info
        yield info
        while info.parent is not None:
            info = (await open_session(self.host, info, info.parent)).info
            yield info

    async def agents(self) -> Sequence[AgentSpec]:
        """Return all agents of the workspace, as they are defined now."""
        return await asyncio.to_thread(self.host.workspaces.agents, self.workspace)

    async def agent(self, name: str) -> AgentSpec:
        """Return an agent of the caller's team, as both are defined now.

        Raises `NotFound` for one that is internal as for one that does not exist, `Conflict` for one that is not in
        the team.
        """
        return await asyncio.to_thread(self._member, name)

    def _member(self, name: str) -> AgentSpec:
        agents = [each for each in self.host.workspaces.agents(self.workspace) if not each.internal]
        found = next((each for each in agents if each.id == name), None)
        team = [each.id for each in members(self.host.workspaces.agent(self.workspace, self.info.agent), agents)]
        known = f"Your team: {', '.join(team) or 'nobody'}."
        if found is None:
            raise NotFound(f'agent "{name}" not found. {known}')
        if name not in team:
            raise Conflict(f'agent "{name}" is not in your team. {known}')
        return found

    def message(self, text: str, mode: Mode = "interrupt_soft") -> Incoming:
        """Return a message of the caller's, worth no more than the call's own access. A repeated call sends it once."""
        sender = Principal(name=f"session:{self.info.id}", kind="agent", access=self.call.access)
        return Incoming(text=text, principal=sender, mode=mode, key=f"call:{self.call.id}")


async def open_session(host: Host, info: SessionInfo, name: str) -> Session:
    """Return a session of the same owner and workspace as `info`. Raises `NotFound`, `BadInput`."""
    owner = Principal(name=info.principal, kind=info.principal_kind, access=info.access)
    return await host.sessions.open(name, workspace=info.workspace, principal=owner)
