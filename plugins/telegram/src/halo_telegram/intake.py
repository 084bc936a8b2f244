"""What becomes of an update: whether it is for the bot and of somebody who may write, its file, and its arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import cast

import msgspec

from halo_kernel import Account, Arrival, BadInput, Door, Host, Owed, QueueFull

from .arriving import LIMIT, attached, fetch
from .bot import Bot, BotError
from .bots import TYPE
from .mentions import Me, Rule, is_meant, said
from .moves import Moves
from .questions import NONE
from .updates import Callback, Message, Numbered, Person, Update
from .words import say

_QUOTED = 300  # characters of a message that is replied to
_ALBUMS = 100


@dataclass(kw_only=True)
class Intake:
    """Takes in what one bot receives, one update after the other. `commands` are those that it is known by."""

    host: Host
    account: Account
    door: Door
    bot: Bot
    me: Me
    commands: Collection[str] = ()
    _moves: Moves = field(init=False)
    _albums: deque[str] = field(default_factory=lambda: deque[str](maxlen=_ALBUMS))

    def __post_init__(self) -> None:
        self._moves = Moves(self.host)

    async def take(self, raw: bytes | msgspec.Raw) -> int:
        """Take an update in and return its number; it may be acknowledged then.

        Raises `HaloError` when it was not written and has to come again, `BadInput` for what has no number.
        """
        try:
            update = msgspec.json.decode(raw, type=Update)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            update = _numbered(raw)
            about = {"account": self.account.id, "update": update.update_id}
            self.host.log.warning("an update cannot be read", **about, error=str(error))
        try:
            await self._take(update)
        except BadInput as error:  # it would be refused again, and keep all others from being read
            self.host.log.warning("an update was refused", account=self.account.id, error=error.message)
        return update.update_id

    async def _take(self, update: Update) -> None:
        if update.callback_query is not None:
            await self._pressed(update.callback_query)
        elif update.message is not None:
            await self._said(update.message)
        elif update.edited_message is not None:
            await self._said(update.edited_message)
        else:
            self.host.log.debug(
                "an update of a kind that is not read", account=self.account.id, update=update.update_id
            )

    async def _said(self, message: Message) -> None:
        """Take a message in, or the news that a group has another number."""
        if message.migrate_to_chat_id:
            await self._moves.note(self.account.id, message.chat.id, message.migrate_to_chat_id)
        elif message.migrate_from_chat_id:
            await self._moves.note(self.account.id, message.migrate_from_chat_id, message.chat.id)
        elif (person := _writer(message)) and self._is_meant(message):
            if (user := listed(self.account, person)) is None:
                if attached(message) is None and message.words:  # a file of a stranger is passed over in silence
                    await self._arrive(message, str(person.id), message.words)
            elif text := await self._text(message):
                await self._arrive(message, user, text)

    def _is_meant(self, message: Message) -> bool:
        """Tell whether a message is for the bot: of an album the first says so for all."""
        rule = cast("Rule", str(self.account.config.get("groups") or "mention"))
        if is_meant(message, self.me, rule, self.commands):
            if album := message.media_group_id:
                self._albums.append(album)
            return True
        return message.media_group_id in self._albums

    async def _text(self, message: Message) -> str:
        """Return a message in words for the agent, '' where there is nothing to say."""
        words, found = said(message, self.me), attached(message)
        lines = [words] if words else _other(message)
        if found is not None and found.file.file_size > LIMIT:
            limit = LIMIT // 2**20
            await self._tell(message, "too_big", name=found.name, limit=limit)
        elif found is not None:
            place = {"workspace": self.account.workspace, "account": self.account.id}
            lines.append(await fetch(self.bot, found, **place))
        if not lines or words.startswith("/"):
            return "\n".join(lines)
        mark = ["[edited]"] if message.edit_date else []
        return "\n".join([*mark, *_quoted(message, self.me), *lines])

    async def _arrive(self, message: Message, user: str, text: str) -> None:
        edit = f":{message.edit_date}" if message.edit_date else ""
        try:
            await self._enter(message, user, text, key=f"{message.chat.id}:{message.message_id}{edit}")
        except QueueFull:  # the platform would send it again and again, and nothing behind it
            await self._tell(message, "full")

    async def _pressed(self, pressed: Callback) -> None:
        """Take in what a button stands for, and take the buttons away."""
        message, user = pressed.message, listed(self.account, pressed.sender)
        text = None if user else say(self.account.language, "not_allowed")
        if message is not None and user is not None and pressed.data.startswith("/"):
            await self._enter(message, user, pressed.data, key=f"callback:{pressed.id}")
            await self._try("editMessageReplyMarkup", message, reply_markup=NONE)
        await self._try("answerCallbackQuery", None, callback_query_id=pressed.id, text=text)

    async def _enter(self, message: Message, user: str, text: str, *, key: str) -> None:
        """Let a text in at the place of a message; a group that moved stays the conversation that it was."""
        chat, thread = message.chat.id, str(message.thread or "")
        first = await self._moves.first(self.account.id, chat)
        conversation = "" if first == chat else f"{first}:{thread}"
        await self.door.arrive(
            Arrival(key=key, chat=str(chat), thread=thread, user=user, text=text, conversation=conversation)
        )

    async def _try(self, method: str, message: Message | None, **arguments: object) -> None:
        """Do what nobody misses if it fails."""
        where = {} if message is None else {"chat_id": message.chat.id, "message_id": message.message_id}
        try:
            await self.bot.call(method, msgspec.Raw, {**where, **arguments})
        except BotError as error:
            self.host.log.debug("left out", account=self.account.id, error=str(error))

    async def _tell(self, message: Message, what: str, **about: object) -> None:
        """Owe a sentence to where a message came from, once."""
        chat = f"{self.account.id}:{message.chat.id}"
        owed = Owed(
            key=f"{TYPE}:{what}:{chat}:{message.message_id}:{message.edit_date}",
            dispatcher=TYPE,
            target=f"{TYPE}:{chat}:{message.thread}" if message.thread else f"{TYPE}:{chat}",
            text=say(self.account.language, what, **about),
        )
        workspace = await self.host.workspaces.open(self.account.workspace)
        await self.host.outbox.owe(owed, workspace=workspace.id)


def _numbered(raw: bytes | msgspec.Raw) -> Update:
    """Return an update of which nothing but its number can be read."""
    try:
        return Update(msgspec.json.decode(raw, type=Numbered).update_id)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadInput("this is no update of the Bot API", field="update_id") from None


def listed(account: Account, person: Person) -> str | None:
    """Return how the account's list has a person, their number without a list, None if they are not on it.

    The list has numbers and @names; names are compared without regard to case.
    """
    names = {str(person.id)}
    if person.username:
        names |= {person.username.lower(), f"@{person.username.lower()}"}
    if not account.allowed:
        return str(person.id)
    return next((each for each in account.allowed if each.strip().lower() in names), None)


def _writer(message: Message) -> Person | None:
    """Return who wrote a message: a group for its hidden administrators, and no bot, for two would never end."""
    if message.sender_chat is not None and message.sender_chat.id == message.chat.id:
        return Person(message.sender_chat.id)
    return None if message.sender is None or message.sender.is_bot else message.sender


def _quoted(message: Message, me: Me) -> list[str]:
    """Return the lines that a message replies to: none for the bot's own, which the agent knows, unless marked."""
    to = message.reply_to_message
    is_own = to is not None and to.sender is not None and to.sender.id == me.id
    text = message.quote.text if message.quote else "" if to is None or is_own else to.words
    return [f"> {line}" for line in text[:_QUOTED].splitlines()]


def _other(message: Message) -> list[str]:
    """Return in words what has neither text nor file."""
    if message.sticker is not None:
        return [message.sticker.emoji] if message.sticker.emoji else []
    if message.location is not None:
        return [f"[location: {message.location.latitude}, {message.location.longitude}]"]
    if (person := message.contact) is not None:
        return [f"[contact: {person.first_name} {person.last_name} {person.phone_number}]"]
    return []
