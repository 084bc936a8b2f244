"""What people see while an answer is being written: that somebody types, and in a private chat what there is so far."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from halo_kernel import Delta, Principal, Session, SessionInfo, Turn
from halo_lib_text import parse, plain, utf16_length

from .bot import Bot, BotError, Refused
from .bots import TYPE, Bots
from .rendering import LIMIT, to_html
from .settings import TelegramSettings

_TYPING_SECONDS = 4.5  # Telegram shows it for five
_SHOWN = 3000  # characters of a draft
_CURSORS = 1000
Where = dict[str, int | None]


@dataclass
class Presence:
    """Runs beside each turn that answers to a chat; what fails here is left out, for the answer itself is owed."""

    bots: Bots
    _ends: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _cursors: dict[str, str] = field(default_factory=dict[str, str])

    def received(self, session: SessionInfo, cursor: str) -> None:
        """Remember where the answer to a message begins."""
        if session.origin == TYPE:
            self._cursors[session.id] = cursor
            while len(self._cursors) > _CURSORS:
                del self._cursors[next(iter(self._cursors))]

    def started(self, session: SessionInfo, turn: Turn) -> None:
        """Begin to show a turn in the chats that it answers to."""
        routes = [route for route in turn.routes if route.startswith(f"{TYPE}:")]
        if routes and turn.id not in self._ends:
            self._ends[turn.id] = ended = asyncio.Event()
            self.bots.host.spawn(f"{TYPE}.presence", self._show(session, turn, routes, ended))

    def finished(self, turn: str) -> None:
        """End what is shown of a turn."""
        if (ended := self._ends.pop(turn, None)) is not None:
            ended.set()

    async def _show(self, session: SessionInfo, turn: Turn, routes: list[str], ended: asyncio.Event) -> None:
        showing = [asyncio.create_task(self._show_in(session, turn, route)) for route in routes]
        try:
            await ended.wait()
        finally:
            for task in showing:
                task.cancel()
            await asyncio.gather(*showing, return_exceptions=True)

    async def _show_in(self, info: SessionInfo, turn: Turn, route: str) -> None:
        _, id, chat, thread, *_ = [*route.split(":"), ""]
        account = await self.bots.account(id)
        if account is None:
            return
        bot = await self.bots.of(account)
        where: Where = {"chat_id": int(chat), "message_thread_id": int(thread) if thread else None}
        owner = Principal(name=info.principal, kind=info.principal_kind)
        session = await self.bots.host.sessions.open(info.id, workspace=info.workspace, principal=owner)
        cursor = self._cursors.get(info.id)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._type(bot, where, session))
            if cursor and int(chat) > 0:  # groups have no drafts
                group.create_task(self._draft(bot, where, session, turn.id, cursor))

    async def _type(self, bot: Bot, where: Where, session: Session) -> None:
        """Say that somebody types, but while a question waits; until Telegram refuses it."""
        while (state := session.info.state) != "closed":
            if state == "running" and not await _is_taken(bot, "sendChatAction", where, action="typing"):
                return
            await self.bots.host.clock.sleep(_TYPING_SECONDS)

    async def _draft(self, bot: Bot, where: Where, session: Session, turn: str, cursor: str) -> None:
        """Show what a turn writes, every few moments, until Telegram refuses it."""
        seconds = self.bots.host.settings.of(TelegramSettings).draft_seconds
        if not seconds:
            return
        draft, number = Draft(), int(turn[:7], 16) or 1
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(draft.follow(session, turn, cursor))
            while True:
                await draft.grown()
                html = draft.html()
                shown = {"draft_id": number, "text": html, "parse_mode": "HTML"}
                if html and not await _is_taken(bot, "sendMessageDraft", where, **shown):
                    break
                await self.bots.host.clock.sleep(seconds)
            reading.cancel()


@dataclass
class Draft:
    """The answer that is being written, as far as it is."""

    text: str = ""
    _reply: str = ""
    _grown: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, session: Session, turn: str, cursor: str) -> None:
        """Take in what a turn writes, until cancelled."""
        async with aclosing(session.events(cursor, live=True)) as updates:
            async for update in updates:
                if update.delta is not None and update.delta.turn == turn and not update.delta.thinking:
                    self.add(update.delta)

    def add(self, delta: Delta) -> None:
        """Add a piece; that of another reply begins anew."""
        before = self.text if delta.reply == self._reply else ""
        self._reply, self.text = delta.reply, before[: delta.offset] + delta.text
        self._grown.set()

    async def grown(self) -> None:
        """Return when there is more than before."""
        await self._grown.wait()
        self._grown.clear()

    def html(self) -> str:
        """Return what one message shows of it: how it ends, where it is long; '' where that is nothing, or too much."""
        document = parse(self.text[-_SHOWN:])
        return to_html(document) if 0 < utf16_length(plain(document).strip()) <= LIMIT else ""


async def _is_taken(bot: Bot, method: str, where: Where, **arguments: object) -> bool:
    """Call a method whose failure nobody misses, and tell whether it is worth calling again."""
    try:
        await bot.call(method, msgspec.Raw, {**where, **arguments})
    except Refused:
        return False
    except BotError:
        return True
    return True
