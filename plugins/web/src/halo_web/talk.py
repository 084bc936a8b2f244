"""The channel's conversation: a message and the stream of its answer, following a session, stopping, answering."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct

from halo_kernel import (
    BadInput,
    Exchange,
    Host,
    Incoming,
    QuestionInfo,
    Receipt,
    Route,
    ServerEvent,
    Session,
    Stream,
    TurnEnded,
    TurnStarted,
    Update,
)

from .callers import Caller, Callers, wish_of
from .channel import CHANNEL, WebChannel
from .chat import Stopped, consumed, ends, has_more, rests, takes
from .frames import Frame, server_events
from .marks import Mark, mark_of
from .reader import CLIENT_KEY, Reader
from .settings import WebSettings, body_limit
from .uploads import File, Image, check, save

LONGEST = 990_000  # characters; with the lines of its files a message stays below what a session takes
_START = "0"  # as `after`: all of the session, from its beginning

Key = Annotated[str, Meta(min_length=1, max_length=128)]


class MessageRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A message: text, files, or both.

    Without `sessionId` it goes on in the account's newest session, or begins one. A repeated `clientMsgId` is the same
    message. `workspace` is an id or an absolute path.
    """

    message: Annotated[str, Meta(max_length=LONGEST)] = ""
    images: Annotated[tuple[Image, ...], Meta(max_length=20)] = ()
    files: Annotated[tuple[File, ...], Meta(max_length=20)] = ()
    workspace: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    client_msg_id: Key | None = None


class PlaceRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The session whose turn is to stop, the account's newest without `sessionId`."""

    workspace: str | None = None
    session_id: str | None = None


class SettleRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Yes or no to a question, and what to say with it."""

    question: int
    approved: bool
    text: Annotated[str, Meta(max_length=100_000)] = ""
    workspace: str | None = None


async def finishes(session: Session, update: Update, receipt: Receipt) -> bool:
    """Tell whether this ends the answer: a turn that a crash cut is gone on with in the next one."""
    if not ends(update, receipt):
        return False
    body = update.event.body if update.event is not None else None
    if not isinstance(body, TurnEnded) or body.kind != "crash":
        return True
    async with aclosing(session.events(update.cursor)) as later:
        async for each in later:
            if each.event is not None and isinstance(each.event.body, TurnStarted):
                return each.event.body.cause != "recovery"
    return session.info.state != "running" and not await session.waiting()


async def whereabouts(session: Session, receipt: Receipt, cursor: str) -> Literal["before", "within", "behind"]:
    """Tell where a cursor lies: before the answer to a message, in it, or at its end and behind."""
    last, begun, over = receipt.cursor, False, False
    async with aclosing(session.events(receipt.cursor)) as updates:
        async for update in updates:
            if not begun and takes(update, receipt):
                begun = True
                if cursor == last:
                    return "within"
            over = over or (begun and await finishes(session, update, receipt))
            last = update.cursor or last
            if begun and cursor == last:
                return "behind" if over else "within"
    return "before"


async def answered(
    session: Session, receipt: Receipt, *, waits: bool, after: Mark | None
) -> AsyncGenerator[ServerEvent]:
    """Yield the frames of what answers the message, those behind `after`; of one that waits, only that it does."""
    frames: list[Frame] = [{"type": "session", "sessionId": session.info.id, "row": receipt.row, "at": receipt.at}]
    place = await whereabouts(session, receipt, after.cursor) if after else "before"
    if waits:
        frames.append({"type": "queued", **({} if receipt.question is None else {"question": receipt.question})})
    elif place == "behind":
        frames.append({"type": "complete", "outcome": "", "turn": ""})
    for event in server_events(frames, None):
        yield event
    if waits or place == "behind":
        return
    mark = after if after and place == "within" else Mark(cursor=receipt.cursor)
    is_later = place == "before" or mark.cursor != receipt.cursor
    reader, begun = Reader(session.info.id, after=mark, muted=is_later, row=receipt.row), False
    async with aclosing(session.events(receipt.cursor, live=True)) as updates:
        async for update in updates:
            if not begun and takes(update, receipt):
                begun, reader.muted = True, reader.muted and place == "within"
            events, is_end = reader.of(update), begun and ends(update, receipt)
            if is_end and not await finishes(session, update, receipt):
                continue  # without a frame that would say that it has ended
            for event in events:
                yield event
            if is_end:
                return


async def beginning_of(session: Session, turn: str) -> str | None:
    """Return the cursor right before a turn."""
    before = None
    async with aclosing(session.events()) as updates:
        async for update in updates:
            if update.event is not None and update.event.turn == turn and isinstance(update.event.body, TurnStarted):
                return before
            before = update.cursor
    return before


async def followed(session: Session, after: Mark, *, running: bool, more: bool) -> AsyncGenerator[ServerEvent]:
    """Yield the frames behind a mark, then what happens; a session at rest says so at once."""
    frames: list[Frame] = [{"type": "session", "sessionId": session.info.id, "running": running}]
    if not running and not more:
        frames.append({"type": "complete", "outcome": "", "turn": ""})
    for event in server_events(frames, None):
        yield event
    reader = Reader(session.info.id, after=after)
    async with aclosing(session.events(after.cursor or None, live=True)) as updates:
        async for update in updates:
            for event in reader.of(update):
                yield event


async def nothing() -> AsyncGenerator[ServerEvent]:
    """Yield what a follower of an account without a session is told."""
    yield ServerEvent(event="message", data={"type": "error", "error": "there is no session yet", "kind": "NotFound"})


@dataclass(frozen=True, kw_only=True)
class _Talk:
    host: Host
    callers: Callers

    async def send(self, exchange: Exchange) -> Stream:
        assert isinstance(exchange.body, MessageRequest)
        wish, after = exchange.body, mark_of(exchange)
        if not wish.message.strip() and not wish.images and not wish.files:
            raise BadInput("message or images required", field="message")
        if "\0" in wish.message:
            raise BadInput("message must not contain U+0000", field="message")
        uploads = check(wish.images, wish.files, limit=self.host.settings.of(WebSettings).max_file_bytes)
        caller, key = await self.callers.of(exchange, wish.workspace), wish.client_msg_id
        agent = wish_of(exchange, "agentId", "x-agent-id", wish.agent_id)
        named = wish_of(exchange, "sessionId", "x-session-id", wish.session_id)
        session = await self.callers.choose(caller, named, agent=agent, key=key)
        busy = session.info.state in ("running", "waiting")
        lines = await save(caller, uploads, now=self.host.clock.now())
        text = "\n".join([*([wish.message] if wish.message.strip() else []), *lines])
        inbox_key = None if key is None else f"{CLIENT_KEY}{key}"
        receipt = await session.submit(Incoming(text=text, key=inbox_key, principal=caller.person))
        if receipt.session != session.info.id:  # a repeat of what an earlier session was told
            session = await self.callers.open(caller, receipt.session)
        if after is not None:
            await has_more(session, after.cursor)
        waits = busy and await self._is_behind(caller, session, receipt)
        return self._stream(caller, answered(session, receipt, waits=waits, after=after))

    async def _is_behind(self, caller: Caller, session: Session, receipt: Receipt) -> bool:
        """Tell whether the message waits behind another turn; one that is about to begin for it is none."""
        info = session.info
        view, _ = await self.host.sessions.view(info.id, workspace=info.workspace, principal=caller.person)
        return bool(view.running) and not await consumed(session, receipt)

    async def subscribe(self, exchange: Exchange) -> Stream:
        whole = exchange.query.get("after") == _START and not exchange.last_event_id
        after = None if whole else mark_of(exchange)
        caller = await self.callers.of(exchange)
        session = await self._session(exchange, caller)
        if session is None:
            return Stream(events=nothing())
        if after is None and not whole:
            after = await self._now(caller, session)
        mark = after or Mark()
        more = await has_more(session, mark.cursor or None)
        running = not await rests(self.host, session, caller.person)
        return self._stream(caller, followed(session, mark, running=running, more=more))

    async def stop(self, exchange: Exchange) -> Stopped:
        assert isinstance(exchange.body, PlaceRequest)
        caller = await self.callers.of(exchange, exchange.body.workspace)
        session = await self._session(exchange, caller, exchange.body.session_id)
        return Stopped(session is not None and session.interrupt())

    async def answer(self, exchange: Exchange) -> QuestionInfo:
        assert isinstance(exchange.body, SettleRequest)
        given = exchange.body
        caller = await self.callers.of(exchange, given.workspace)
        return await self.host.questions.answer(
            given.question,
            workspace=caller.workspace.id,
            principal=caller.person,
            approved=given.approved,
            text=given.text,
        )

    async def _session(self, exchange: Exchange, caller: Caller, said: str | None = None) -> Session | None:
        return await self.callers.current(caller, wish_of(exchange, "sessionId", "x-session-id", said))

    async def _now(self, caller: Caller, session: Session) -> Mark:
        """Return where the running turn began, else where the journal ends."""
        info = session.info
        view, cursor = await self.host.sessions.view(info.id, workspace=info.workspace, principal=caller.person)
        begun = await beginning_of(session, view.running) if view.running else cursor
        return Mark(cursor=begun or "")

    def _stream(self, caller: Caller, events: AsyncGenerator[ServerEvent]) -> Stream:
        channel = cast("WebChannel | None", self.host.lookup("channel", CHANNEL))
        return Stream(events=events if channel is None else channel.guarded(caller.account.id, events))


def talk_routes(host: Host, callers: Callers) -> list[Route]:
    """Return the channel's routes of the conversation."""
    on = _Talk(host=host, callers=callers)
    path, auth = "/api/web", f"account:{CHANNEL}"
    return [
        Route(
            method="POST",
            path=f"{path}/chat",
            handler=on.send,
            request=MessageRequest,
            auth=auth,
            body_limit=body_limit(host.settings.of(WebSettings)),
            summary="Send a message with a token and stream its answer",
        ),
        Route(
            method="GET",
            path=f"{path}/subscribe",
            handler=on.subscribe,
            auth=auth,
            summary="Stream the frames of an account's session",
        ),
        Route(
            method="POST",
            path=f"{path}/stop",
            handler=on.stop,
            request=PlaceRequest,
            reply=Stopped,
            auth=auth,
            summary="Stop the running turn of an account's session",
        ),
        Route(
            method="POST",
            path=f"{path}/answer",
            handler=on.answer,
            request=SettleRequest,
            reply=QuestionInfo,
            auth=auth,
            summary="Answer a question of an account's session",
        ),
    ]
