"""A session's events: a page of them, or a stream that goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from halo_kernel import Delta, Event, Exchange, Foreign, Host, Route, ServerEvent, Session, Stream, Update

from .query import after_of, limit_of
from .sessions import SESSION, open_session

_PAGE = 200


class EventView(Struct, frozen=True, kw_only=True):
    """One fact of a session: `seq` counts from 1, `at` is UTC milliseconds, `body` depends on `kind`."""

    seq: int
    at: int
    turn: str
    kind: str
    body: dict[str, object]


class DeltaView(Struct, frozen=True, kw_only=True):
    """A piece of an answer that is not a fact yet: `offset` characters of `reply` came before it."""

    turn: str
    reply: str
    offset: int
    text: str
    thinking: bool = False


class EventList(Struct, frozen=True):
    """Events in order, and the cursor after the last of them."""

    events: Sequence[EventView]
    cursor: str | None


def view_event(event: Event) -> EventView:
    """Return an event as clients see it."""
    body = event.body.data if isinstance(event.body, Foreign) else msgspec.to_builtins(event.body)
    return EventView(seq=event.seq, at=event.at, turn=event.turn, kind=event.kind, body=body)


def view_delta(delta: Delta) -> DeltaView:
    """Return a delta as clients see it."""
    return DeltaView(turn=delta.turn, reply=delta.reply, offset=delta.offset, text=delta.text, thinking=delta.thinking)


def server_event(update: Update) -> ServerEvent | None:
    """Return an update as a server-sent event: `event` with its cursor as id, or `delta`."""
    if update.event is not None:
        return ServerEvent(event="event", data=msgspec.to_builtins(view_event(update.event)), id=update.cursor)
    if update.delta is not None:
        return ServerEvent(event="delta", data=msgspec.to_builtins(view_delta(update.delta)))
    return None


async def check_cursor(session: Session, after: str | None) -> None:
    """Raise `CursorGone` now, while the answer can still have a status of its own."""
    if after is None:
        return
    async with aclosing(session.events(after)) as updates:
        await anext(updates, None)


async def follow(session: Session, after: str | None) -> AsyncIterator[ServerEvent]:
    """Yield what came after the cursor, then what happens."""
    async with aclosing(session.events(after, live=True)) as updates:
        async for update in updates:
            event = server_event(update)
            if event is not None:
                yield event


async def page(session: Session, after: str | None, limit: int) -> EventList:
    """Return at most `limit` events after the cursor."""
    found: list[EventView] = []
    cursor = after
    async with aclosing(session.events(after)) as updates:
        async for update in updates:
            if update.event is None:
                continue
            found.append(view_event(update.event))
            cursor = update.cursor
            if len(found) == limit:
                break
    return EventList(found, cursor)


@dataclass(frozen=True)
class _Streams:
    host: Host

    async def events(self, exchange: Exchange) -> EventList:
        after, limit = after_of(exchange), limit_of(exchange.query, _PAGE)
        return await page(await open_session(self.host, exchange), after, limit)

    async def stream(self, exchange: Exchange) -> Stream:
        after = after_of(exchange)
        session = await open_session(self.host, exchange)
        await check_cursor(session, after)
        return Stream(events=follow(session, after))


def stream_routes(host: Host) -> list[Route]:
    """Return the routes of a session's events."""
    on = _Streams(host)
    return [
        Route(
            method="GET",
            path=SESSION + "/events",
            handler=on.events,
            reply=EventList,
            summary="List events after a cursor",
        ),
        Route(
            method="GET",
            path=SESSION + "/stream",
            handler=on.stream,
            summary="Stream events after a cursor, then events and deltas as they happen",
        ),
    ]
