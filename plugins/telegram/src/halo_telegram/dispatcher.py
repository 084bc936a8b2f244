"""The dispatcher: carries parts to their chats, and says of each failure what it means."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from halo_kernel import Account, DeliveryFailed, Guarantee, Part
from halo_lib_text import parse, plain, take_media

from .attachments import NotSent, as_document, read, shown
from .bot import Bot, Refused, Unreached, Upload
from .bots import TYPE, Bots, NoToken
from .moves import Moves
from .questions import buttons
from .rendering import file_of, messages, pieces, source_of, to_html
from .updates import Sent
from .words import say

_NO_THREAD = re.compile(r"thread not found|TOPIC_(DELETED|CLOSED|ID_INVALID)|topic (deleted|closed)", re.IGNORECASE)
_NO_MARKUP = re.compile(r"can't parse entities|must be non-empty|text is empty", re.IGNORECASE)
_NO_SHOW = re.compile(r"PHOTO|IMAGE|VOICE_MESSAGES_FORBIDDEN|VIDEO|too big for a photo", re.IGNORECASE)
_MENDS = 5


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message on its way: its text in both forms, or a file."""

    chat: int
    thread: int | None
    html: str = ""
    plain: str = ""
    upload: Upload | None = None
    keyboard: Mapping[str, object] | None = None

    async def send(self, bot: Bot) -> str:
        """Send it once and return its number. Raises `BotError`."""
        where = {"chat_id": self.chat, "message_thread_id": self.thread, "reply_markup": self.keyboard}
        if self.upload is not None:
            method = f"send{self.upload.field.capitalize()}"
            return str((await bot.upload(method, self.upload, Sent, where)).message_id)
        mode = "HTML" if self.html else None
        sent = await bot.call("sendMessage", Sent, {**where, "text": self.html or self.plain, "parse_mode": mode})
        return str(sent.message_id)


class Outgoing:
    """Telegram knows no key of a message and cannot be searched: a part whose answer is lost is never sent again."""

    kind = TYPE
    guarantee: Guarantee = "none"

    def __init__(self, bots: Bots) -> None:
        self._bots, self._moves = bots, Moves(bots.host)

    def split(self, text: str) -> Sequence[str]:
        """Cut into messages; see `rendering.messages`."""
        return messages(text)

    async def find(self, part: Part) -> str | None:
        """Nobody asks: no message can be searched for."""
        return None

    async def deliver(self, part: Part) -> str:
        """Send a part to its target, `telegram:<account>:<chat>[:<thread>]`."""
        account, chat, thread = await self._place(part.target)
        try:
            bot = await self._bots.of(account)
            message = await self._message(part, account, await self._moves.now(account.id, chat), thread)
            return await self._send(bot, account, message)
        except (NoToken, Unreached) as error:
            raise DeliveryFailed(str(error)) from None
        except Refused as refused:
            raise _failed(refused) from None

    async def _place(self, target: str) -> tuple[Account, int, int | None]:
        """Return where a target is. Raises `DeliveryFailed`, for good where it is nowhere."""
        _, id, chat, thread, *_ = [*target.split(":"), "", "", "", ""]
        account = await self._bots.account(id)
        if account is None or not re.fullmatch(r"-?\d{1,18}", chat) or not re.fullmatch(r"\d{0,18}", thread):
            raise DeliveryFailed(f"there is no {target}", permanent=True)
        if not account.enabled:
            raise DeliveryFailed(f"the account {id} is disabled")
        return account, int(chat), int(thread) if thread else None

    async def _message(self, part: Part, account: Account, chat: int, thread: int | None) -> Message:
        if path := file_of(part.text):
            try:
                data = await asyncio.to_thread(read, path, account, home=self._bots.host.settings.home)
                return Message(chat=chat, thread=thread, upload=shown(path, data))
            except NotSent as error:
                text = say(account.language, "not_sent", name=path.rpartition("/")[2], why=error)
                return Message(chat=chat, thread=thread, plain=text)
        workspace = await self._bots.host.workspaces.open(account.workspace)
        first = await self._moves.first(account.id, chat)
        owner = f"{TYPE}:{account.id}:{first}:{thread or ''}"
        keys = await buttons(self._bots.host, part, workspace=workspace.id, owner=owner)
        html, text = await self._rendered(part, workspace.id)
        return Message(chat=chat, thread=thread, html=html, plain=text, keyboard=keys)

    async def _rendered(self, part: Part, workspace: str) -> tuple[str, str]:
        """Return a part as HTML, '' where people would see nothing of it, and as plain text.

        A part that is not the first may begin inside of a fence, list or table: the whole text tells.
        """
        document = parse(part.text)
        if part.number > 1:
            owed = await self._bots.host.outbox.list(
                workspace=workspace, session=part.session, unsettled=True, limit=500
            )
            whole = next((each.text for each in owed if each.id == part.delivery), "")
            found = pieces(take_media(whole)[0])[part.number - 1 : part.number]
            document = found[0].document if found and source_of(found[0]) == part.text else document
        text = plain(document)
        return (to_html(document), text) if text.strip() else ("", part.text)

    async def _send(self, bot: Bot, account: Account, message: Message) -> str:
        """Send a message; what the platform says to be wrong with it is mended, each thing once."""
        for _ in range(_MENDS):
            try:
                return await message.send(bot)
            except Refused as refused:
                mended = await self._mended(refused, account, message)
                if mended is None:
                    raise
                message = mended
        return await message.send(bot)

    async def _mended(self, refused: Refused, account: Account, message: Message) -> Message | None:
        if refused.moved_to and refused.moved_to != message.chat:
            await self._moves.note(account.id, message.chat, refused.moved_to)
            return replace(message, chat=refused.moved_to)
        if refused.code != 400:
            return None
        if message.thread is not None and _NO_THREAD.search(refused.description):
            return replace(message, thread=None)
        if message.html and _NO_MARKUP.search(refused.description):
            return replace(message, html="")
        upload = message.upload
        if upload is not None and upload.field != "document" and _NO_SHOW.search(refused.description):
            return replace(message, upload=as_document(upload.name, upload.data))
        return None


def _failed(refused: Refused) -> DeliveryFailed:
    """Return what a refusal means: nothing was sent, and whether another attempt may do better."""
    if refused.code == 429:
        return DeliveryFailed(str(refused), retry_after=float(refused.retry_after or 1))
    if refused.code in (401, 404):  # the token is none: an operator can give another
        return DeliveryFailed(f"{refused}: the bot's token is not valid any more", retry_after=60.0)
    return DeliveryFailed(str(refused), permanent=True)
