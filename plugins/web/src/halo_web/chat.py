"""Talking: a message and the stream of its answer, following a session, stopping its turn."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import (
    BadInput,
    CommandFinished,
    Exchange,
    Host,
    Incoming,
    InputAdded,
    Principal,
    Receipt,
    Route,
    ServerEvent,
    Session,
    Stream,
    TurnEnded,
    Update,
)

from .frames import Frame, Frames, own_key, server_events

_SETTLING = 10
_CURSOR = re.compile(r"[0-9A-Za-z_-]{1,64}\.[0-9]{1,18}")


class ChatRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A message. Without `session` a new one begins; a repeated `key` is the same message, in the same new session."""

    message: str
    workspace: str
    session: str | None = None
    agent: str | None = None
    key: Annotated[str, Meta(min_length=1, max_length=128)] | None = None


class StopRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The session whose turn is to stop."""

    workspace: str
    session: str


class Stopped(Struct, frozen=True):
    """Whether a turn was running."""

    stopped: bool


def query_of(exchange: Exchange, name: str) -> str:
    """Return a query parameter that must be there. Raises `BadInput`."""
    value = exchange.query.get(name)
    if not value:
        raise BadInput(f"{name} is required", field=name)
    return value


def cursor_of(exchange: Exchange) -> str | None:
    """Return the cursor to go on after; the header of a reconnecting reader is newer than its address.

    Raises `BadInput` for anything that is not a cursor.
    """
    raw = exchange.last_event_id or exchange.query.get("after")
    if raw and not _CURSOR.fullmatch(raw):
        raise BadInput(f"after must be a cursor as this server gave it, not {raw[:80]!r}", field="after")
    return raw or None


def new_session_id(workspace: str, principal: Principal, key: str) -> str:
    """Return the id of the session that a first message with this key begins, the same for every repeat."""
    digest = hashlib.sha256("\n".join((workspace, principal.kind, principal.name, key)).encode())
    return f"web_{digest.hexdigest()[:24]}"


async def open_session(host: Host, principal: Principal, wish: ChatRequest) -> Session:
    """Return the session that a message goes to, a new one if it names none. Raises `NotFound`."""
    sessions, workspace = host.sessions, wish.workspace
    if wish.session is not None:
        return await sessions.open(wish.session, workspace=workspace, principal=principal)
    if wish.key is None:
        return await sessions.create(workspace=workspace, principal=principal, agent=wish.agent, origin="web")
    name = new_session_id(workspace, principal, wish.key)
    return await sessions.open(name, workspace=workspace, principal=principal, agent=wish.agent, create=True)


async def has_more(session: Session, after: str | None) -> bool:
    """Tell whether the journal goes on after the cursor. Raises `CursorGone` while the answer can still say so."""
    async with aclosing(session.events(after)) as updates:
        return await anext(updates, None) is not None


async def consumed(session: Session, receipt: Receipt) -> bool:
    """Tell whether a turn has taken the message, or a command was carried out."""
    async with aclosing(session.events(receipt.cursor)) as updates:
        return any([takes(update, receipt) async for update in updates])


def takes(update: Update, receipt: Receipt) -> bool:
    """Tell whether this is the event that takes the message into the history, or answers it as a command."""
    body = update.event.body if update.event is not None else None
    return isinstance(body, InputAdded | CommandFinished) and body.row == receipt.row


def ends(update: Update, receipt: Receipt) -> bool:
    """Tell whether this ends the answer for good: a turn that yielded leaves its own to the next one."""
    body = update.event.body if update.event is not None else None
    if isinstance(body, CommandFinished):
        return body.row == receipt.row
    return isinstance(body, TurnEnded) and body.outcome != "yielded"


async def answer(session: Session, receipt: Receipt, *, waits: bool) -> AsyncIterator[ServerEvent]:
    """Yield the frames of what answers the message; of a message that waits, only that it does."""
    frames: list[Frame] = [{"type": "session", "sessionId": session.info.id, "row": receipt.row, "at": receipt.at}]
    if waits:
        asked: Frame = {} if receipt.question is None else {"question": receipt.question}
        frames.append({"type": "queued", **asked})
    for event in server_events(frames, None):
        yield event
    if waits:
        return
    reader, begun = Frames(session.info.id), False
    async with aclosing(session.events(receipt.cursor, live=True)) as updates:
        async for update in updates:
            begun = begun or takes(update, receipt)
            if not begun:
                continue
            for event in reader.of(update):
                yield event
            if ends(update, receipt):
                return


async def rests(host: Host, session: Session, principal: Principal) -> bool:
    """Tell whether no turn runs, is about to or waits; one that is just coming to rest is waited for, a moment."""
    for _ in range(_SETTLING):
        info = session.info
        if info.state != "running":
            return info.state != "waiting"
        view, _ = await host.sessions.view(info.id, workspace=info.workspace, principal=principal)
        if view.running:
            return False
        await host.clock.sleep(0.05)
    return False


async def follow(session: Session, after: str | None, *, running: bool, more: bool) -> AsyncIterator[ServerEvent]:
    """Yield the frames after the cursor, then what happens; a session at rest says so at once."""
    frames: list[Frame] = [{"type": "session", "sessionId": session.info.id, "running": running}]
    if not running and not more:
        frames.append({"type": "complete", "outcome": "", "turn": ""})
    for event in server_events(frames, None):
        yield event
    reader = Frames(session.info.id)
    async with aclosing(session.events(after, live=True)) as updates:
        async for update in updates:
            for event in reader.of(update):
                yield event


@dataclass(frozen=True)
class _Chat:
    host: Host

    async def send(self, exchange: Exchange) -> Stream:
        assert isinstance(exchange.body, ChatRequest)
        wish, principal = exchange.body, exchange.principal
        if not wish.message.strip():
            raise BadInput("message must not be empty", field="message")
        session = await open_session(self.host, principal, wish)
        busy = session.info.state in ("running", "waiting")
        key = own_key(session.info.id, wish.key) if wish.key is not None else None
        receipt = await session.submit(Incoming(text=wish.message, key=key, principal=principal))
        waits = busy and not await consumed(session, receipt)
        return Stream(events=answer(session, receipt, waits=waits))

    async def subscribe(self, exchange: Exchange) -> Stream:
        after = cursor_of(exchange)
        session = await self._session(exchange, query_of(exchange, "workspace"), query_of(exchange, "session"))
        more = await has_more(session, after)
        running = not await rests(self.host, session, exchange.principal)
        return Stream(events=follow(session, after, running=running, more=more))

    async def stop(self, exchange: Exchange) -> Stopped:
        assert isinstance(exchange.body, StopRequest)
        session = await self._session(exchange, exchange.body.workspace, exchange.body.session)
        return Stopped(session.interrupt())

    async def _session(self, exchange: Exchange, workspace: str, session: str) -> Session:
        return await self.host.sessions.open(session, workspace=workspace, principal=exchange.principal)


def chat_routes(host: Host) -> list[Route]:
    """Return the routes of the conversation."""
    on = _Chat(host)
    return [
        Route(
            method="POST",
            path="/api/page/chat",
            handler=on.send,
            request=ChatRequest,
            summary="Send a message and stream its answer",
        ),
        Route(method="GET", path="/api/page/subscribe", handler=on.subscribe, summary="Stream a session's frames"),
        Route(
            method="POST",
            path="/api/page/stop",
            handler=on.stop,
            request=StopRequest,
            reply=Stopped,
            summary="Stop the running turn",
        ),
    ]
