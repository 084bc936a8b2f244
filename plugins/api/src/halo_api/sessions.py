"""Sessions, and messages to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from halo_kernel import (
    BadInput,
    Exchange,
    Host,
    Incoming,
    Mode,
    NotFound,
    Principal,
    Receipt,
    Reply,
    Route,
    Session,
    SessionInfo,
    parse_access,
)

from .query import before_of, limit_of

SESSIONS = "/api/workspaces/{workspace}/sessions"
SESSION = SESSIONS + "/{session}"
_PAGE = 50
_KEY = 128


class SessionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A new session: its agent (the workspace's default one when left out), access, title and origin.

    `directory` is the part of the workspace that it is about, '' or '.' for all. With `id` the session of exactly this
    id is returned, made if it does not exist and moved to `directory` if that is given; then `access`, `title` and
    `origin` must be left out, and `agent` counts for a new one only.
    """

    agent: str | None = None
    access: str | None = None
    title: str = ""
    origin: str = ""
    directory: str | None = None
    id: str | None = None


class SessionList(Struct, frozen=True):
    """Root sessions, newest first."""

    sessions: Sequence[SessionInfo]


class MessageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A message; a `key` (or header `Idempotency-Key`) that this session has seen answers the first receipt.

    It is answered at the session's level, or at `access` if that is lower.
    """

    text: str
    key: Annotated[str, Meta(min_length=1, max_length=_KEY)] | None = None
    mode: Mode = "interrupt_soft"
    access: str | None = None


class Interrupted(Struct, frozen=True):
    """Whether there was a run to interrupt."""

    interrupted: bool


class Compacted(Struct, frozen=True):
    """Whether the model's history has become shorter."""

    compacted: bool


async def open_session(host: Host, exchange: Exchange) -> Session:
    """Return the session that the path names. Raises `NotFound`."""
    params = exchange.params
    return await host.sessions.open(params["session"], workspace=params["workspace"], principal=exchange.principal)


def message_key(exchange: Exchange) -> str | None:
    """Return the key of a message from its body or the header `Idempotency-Key`. Raises `BadInput` when they differ."""
    assert isinstance(exchange.body, MessageRequest)
    header = exchange.raw.headers.get("idempotency-key") or None
    key = exchange.body.key or header
    if header and header != key:
        raise BadInput("key and the header Idempotency-Key must be the same when both are given", field="key")
    if key and len(key) > _KEY:
        raise BadInput(f"Idempotency-Key must be at most {_KEY} characters", field="Idempotency-Key")
    return key


@dataclass(frozen=True)
class _Sessions:
    host: Host

    async def list(self, exchange: Exchange) -> SessionList:
        rows = await self.host.sessions.list(
            workspace=exchange.params["workspace"],
            principal=exchange.principal,
            before=before_of(exchange.query),
            limit=limit_of(exchange.query, _PAGE),
        )
        return SessionList(rows)

    async def create(self, exchange: Exchange) -> Reply:
        assert isinstance(exchange.body, SessionRequest)
        wish, workspace, principal = exchange.body, exchange.params["workspace"], exchange.principal
        if wish.id is not None:
            return await self._named(wish.id, wish, workspace, principal)
        session = await self.host.sessions.create(
            workspace=workspace,
            principal=principal,
            agent=wish.agent,
            access=parse_access(wish.access) if wish.access is not None else None,
            title=wish.title,
            directory=wish.directory or "",
            **({"origin": wish.origin} if wish.origin else {}),
        )
        return Reply(body=session.info, status=201)

    async def _named(self, name: str, wish: SessionRequest, workspace: str, principal: Principal) -> Reply:
        for field in ("access", "title", "origin"):
            if getattr(wish, field):
                raise BadInput(f"{field} cannot be given together with id", field=field)
        try:
            found = await self.host.sessions.open(
                name, workspace=workspace, principal=principal, directory=wish.directory
            )
            return Reply(body=found.info)
        except NotFound:
            made = await self.host.sessions.open(
                name,
                workspace=workspace,
                principal=principal,
                agent=wish.agent,
                create=True,
                directory=wish.directory,
            )
            return Reply(body=made.info, status=201)

    async def show(self, exchange: Exchange) -> SessionInfo:
        return (await open_session(self.host, exchange)).info

    async def submit(self, exchange: Exchange) -> Reply:
        assert isinstance(exchange.body, MessageRequest)
        key = message_key(exchange)
        if not exchange.body.text.strip():
            raise BadInput("text must not be empty", field="text")
        session = await open_session(self.host, exchange)
        message = Incoming(
            text=exchange.body.text,
            # Keys are unique in a workspace; a caller's own is so in its session only.
            key=key and f"api:{session.info.id}:{key}",
            mode=exchange.body.mode,
            principal=exchange.principal,
            access=None if exchange.body.access is None else parse_access(exchange.body.access),
        )
        receipt = await session.submit(message)
        return Reply(body=replace(receipt, key=key or receipt.key), status=202)

    async def interrupt(self, exchange: Exchange) -> Interrupted:
        return Interrupted((await open_session(self.host, exchange)).interrupt())

    async def compact(self, exchange: Exchange) -> Compacted:
        return Compacted(await (await open_session(self.host, exchange)).compact())


def session_routes(host: Host) -> list[Route]:
    """Return the routes of sessions and messages."""
    on = _Sessions(host)
    return [
        Route(method="GET", path=SESSIONS, handler=on.list, reply=SessionList, summary="List root sessions"),
        Route(
            method="POST",
            path=SESSIONS,
            handler=on.create,
            request=SessionRequest,
            reply=SessionInfo,
            summary="Make a session",
        ),
        Route(method="GET", path=SESSION, handler=on.show, reply=SessionInfo, summary="Show a session"),
        Route(
            method="POST",
            path=SESSION + "/messages",
            handler=on.submit,
            request=MessageRequest,
            reply=Receipt,
            summary="Send a message; the receipt says that it is durable",
        ),
        Route(
            method="POST",
            path=SESSION + "/interrupt",
            handler=on.interrupt,
            reply=Interrupted,
            summary="Cancel the running turn; waiting messages stay",
        ),
        Route(
            method="POST",
            path=SESSION + "/compact",
            handler=on.compact,
            reply=Compacted,
            summary="Make the model's history shorter; the answer comes when that is done",
        ),
    ]
