"""All that the platform knows, and who is told when it changes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .arguments import Arguments
from .bots import Bot
from .chats import Chat, User, not_found
from .faults import Faults
from .posts import Body, Post
from .refusals import bad_request
from .rules import Clock, Rules

FIRST_USER = 5_000_000_001
FIRST_BOT = 7_000_000_001
FIRST_GROUP = 4_000_000_001
FIRST_SUPERGROUP = 1_002_000_000_001


@dataclass(frozen=True)
class Received:
    """A call of a bot and what came of it."""

    method: str
    bot: int
    arguments: dict[str, str]
    files: dict[str, str]
    at: float
    outcome: list[str]
    """'ok', or the refusal, or the fault; empty while it lasts."""

    @property
    def record(self) -> dict[str, Any]:
        """As JSON."""
        said = {"method": self.method, "bot": self.bot, "arguments": self.arguments, "files": self.files}
        return said | {"at": self.at, "outcome": " ".join(self.outcome)}


@dataclass
class World:
    """Users, bots, groups and what happened. `changed` wakes those that watch."""

    clock: Clock = field(default_factory=Clock)
    rules: Rules = field(default_factory=Rules)
    users: dict[int, User] = field(default_factory=dict)
    bots: dict[str, Bot] = field(default_factory=dict)
    """By token."""
    groups: dict[int, Chat] = field(default_factory=dict)
    calls: list[Received] = field(default_factory=list)
    pushes: list[dict[str, Any]] = field(default_factory=list)
    """What webhooks were sent, and what they answered."""
    popups: list[dict[str, Any]] = field(default_factory=list)
    """What people saw after they had pressed a button."""
    changes: int = 0
    on_bot: Callable[[Bot], None] = lambda bot: None
    _watching: set[asyncio.Future[None]] = field(default_factory=set)
    _user_ids: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_USER))
    _bot_ids: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_BOT))
    _group_ids: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_GROUP))
    _supergroup_ids: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_SUPERGROUP))
    _other_ids: itertools.count[int] = field(default_factory=lambda: itertools.count(71_000_000_000_001))

    def __post_init__(self) -> None:
        self.faults = Faults(self.clock.now)

    @property
    def now(self) -> int:
        """The whole seconds since 1970."""
        return int(self.clock.now())

    def user_id(self, *, bot: bool = False) -> int:
        """Return the number of a new user."""
        return next(self._bot_ids if bot else self._user_ids)

    def group_id(self, *, supergroup: bool) -> int:
        """Return the number of a new group."""
        return -next(self._supergroup_ids if supergroup else self._group_ids)

    def other_id(self) -> str:
        """Return a number for anything else."""
        return str(next(self._other_ids))

    def chat(self, bot: Bot, chat_id: str) -> Chat:
        """Return the chat that a bot names, by number or @name."""
        if not chat_id:
            raise bad_request("chat_id is empty")
        if chat_id.startswith("@"):
            raise not_found()  # groups here have no public names
        try:
            number = int(chat_id)
        except ValueError:
            raise not_found() from None
        if number in self.users and number not in bot.chats:
            bot.chats[number] = Chat(number, "private", user=self.users[number], started=False)
        chat = bot.chats.get(number) or self.groups.get(number)
        if chat is None or (chat.is_group and bot.id not in chat.members):
            raise not_found()
        return chat

    def add(self, bot: Bot) -> None:
        """Let a bot exist."""
        self.bots[bot.token] = bot
        self.on_bot(bot)

    def received(self, method: str, bot: int, arguments: Arguments) -> Received:
        """Note a call."""
        files = {name: f"{each.filename} {len(each.data)}" for name, each in arguments.files.items()}
        call = Received(method, bot, dict(arguments.values), files, self.clock.now(), [])
        self.calls.append(call)
        self.changed()
        return call

    def bot(self, bot_id: int) -> Bot:
        """Return a bot by its number; 0 is the only one."""
        found = [bot for bot in self.bots.values() if bot_id in (0, bot.id)]
        if len(found) != 1:
            raise LookupError(
                f"bot: {len(found)} bots have the number {bot_id}; name one of {[bot.id for bot in self.bots.values()]}"
            )
        return found[0]

    def listeners(self, chat: Chat) -> list[Bot]:
        """Return the bots in a chat."""
        if not chat.is_group:
            return [bot for bot in self.bots.values() if bot.chats.get(chat.id) is chat]
        return [bot for bot in self.bots.values() if chat.status(bot.id) in ("administrator", "member", "creator")]

    def post(self, chat: Chat, sender: User, body: Body, **more: Any) -> Post:
        """Add a message to a chat; bots hear what people and the platform say, never other bots."""
        post = Post(chat.next_id(), chat, sender, self.now, body, **more)
        chat.posts[post.id] = post
        self.changed()
        return post

    def tell(self, post: Post, kind: str = "message") -> list[int]:
        """Let the bots of a chat hear a message; return the updates' numbers."""
        hearing = [bot for bot in self.listeners(post.chat) if bot.id != post.sender.id and bot.hears(post)]
        return [number for bot in hearing if (number := bot.updates.add(kind, post.record))]

    def changed(self) -> None:
        """Wake those that watch."""
        self.changes += 1
        watching, self._watching = self._watching, set()
        for each in watching:
            if not each.done():
                each.set_result(None)

    async def next_change(self) -> None:
        """Wait for the next change."""
        waiter = asyncio.get_running_loop().create_future()
        self._watching.add(waiter)
        try:
            await waiter
        finally:
            self._watching.discard(waiter)

    async def until(self, fact: Callable[[], bool], timeout: float) -> None:
        """Wait until something is so; `TimeoutError` after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while not fact():
                await self.next_change()
