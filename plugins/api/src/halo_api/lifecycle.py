"""What becomes of sessions: renamed, forked, stopped, archived, deleted; and exchanges that are shown no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

from msgspec import Struct

from halo_kernel import BadInput, CommandSpec, Exchange, Host, Principal, Reply, Route, SessionInfo

from .sessions import SESSION, SessionList, open_session
from .streams import EventView, view_event


class SessionChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The new title of a session, 1 to 200 characters."""

    title: str


class ForkRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The title of the copy; left out, it has that of the original."""

    title: str | None = None


class CommandList(Struct, frozen=True):
    """What people can ask for by `/name` in a session."""

    commands: Sequence[CommandSpec]


class _Where(TypedDict):
    workspace: str
    principal: Principal


@dataclass(frozen=True)
class _Lifecycle:
    host: Host

    async def rename(self, exchange: Exchange) -> SessionInfo:
        assert isinstance(exchange.body, SessionChange)
        await self.host.sessions.rename(*_which(exchange), **_where(exchange), title=exchange.body.title)
        return (await open_session(self.host, exchange)).info

    async def delete(self, exchange: Exchange) -> Reply:
        await self.host.sessions.delete(*_which(exchange), **_where(exchange))
        return Reply(status=204)

    async def fork(self, exchange: Exchange) -> Reply:
        assert isinstance(exchange.body, ForkRequest)
        copy = await self.host.sessions.fork(*_which(exchange), **_where(exchange), title=exchange.body.title)
        return Reply(body=copy.info, status=201)

    async def stop(self, exchange: Exchange) -> SessionInfo:
        session = await open_session(self.host, exchange)
        await session.stop()
        return session.info

    async def archive(self, exchange: Exchange) -> SessionInfo:
        session = await open_session(self.host, exchange)
        await session.archive()
        return session.info

    async def children(self, exchange: Exchange) -> SessionList:
        return SessionList(await (await open_session(self.host, exchange)).children())

    async def commands(self, exchange: Exchange) -> CommandList:
        return CommandList(await (await open_session(self.host, exchange)).commands())

    async def delete_exchange(self, exchange: Exchange) -> EventView:
        row = exchange.params["row"]
        if not (row.isascii() and row.isdecimal() and len(row) < 19):
            raise BadInput("row must be the number of a message", field="row")
        return view_event(await self.host.sessions.delete_exchange(*_which(exchange), **_where(exchange), row=int(row)))


def _which(exchange: Exchange) -> tuple[str]:
    return (exchange.params["session"],)


def _where(exchange: Exchange) -> _Where:
    return {"workspace": exchange.params["workspace"], "principal": exchange.principal}


def lifecycle_routes(host: Host) -> list[Route]:
    """Return the routes that change what becomes of a session."""
    on = _Lifecycle(host)
    get, post = partial(Route, method="GET"), partial(Route, method="POST")
    return [
        Route(
            method="PATCH",
            path=SESSION,
            handler=on.rename,
            request=SessionChange,
            reply=SessionInfo,
            summary="Give a session a title, which no message replaces",
        ),
        Route(method="DELETE", path=SESSION, handler=on.delete, summary="Delete a session and all below it"),
        post(
            path=SESSION + "/fork",
            handler=on.fork,
            request=ForkRequest,
            reply=SessionInfo,
            summary="Make a session with the history of this one",
        ),
        post(
            path=SESSION + "/stop",
            handler=on.stop,
            reply=SessionInfo,
            summary="Cancel a session and all below it; what waits is not answered",
        ),
        post(
            path=SESSION + "/archive",
            handler=on.archive,
            reply=SessionInfo,
            summary="Stop a session and all below it, and take no more messages",
        ),
        get(
            path=SESSION + "/children",
            handler=on.children,
            reply=SessionList,
            summary="List the sessions started from this one, oldest first",
        ),
        get(path=SESSION + "/commands", handler=on.commands, reply=CommandList, summary="List commands"),
        Route(
            method="DELETE",
            path=SESSION + "/exchanges/{row}",
            handler=on.delete_exchange,
            reply=EventView,
            summary="Show a message and its answer no more",
        ),
    ]
