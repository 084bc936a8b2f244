"""The clients' own methods work on the platform, and its refusals become the errors that people catch."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from importlib.util import find_spec

import pytest

from .conftest import Telegram
from .pictures import PNG

if (find_spec("telegram") is None or find_spec("aiogram") is None) and not os.environ.get("HALO_CI"):
    pytest.skip("python-telegram-bot or aiogram is not installed here", allow_module_level=True)
import aiogram.exceptions
from aiogram import Bot as AiogramBot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import BufferedInputFile, InputMediaDocument, ReactionTypeEmoji, ReplyParameters
from telegram import Bot, InputMediaPhoto
from telegram.constants import ReactionEmoji
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, RetryAfter


@pytest.fixture
async def ptb(telegram: Telegram) -> AsyncIterator[Bot]:
    """A bot of python-telegram-bot."""
    url = telegram.server.url
    async with Bot(telegram.token, base_url=f"{url}/bot", base_file_url=f"{url}/file/bot") as bot:
        yield bot


@pytest.fixture
async def gram(telegram: Telegram) -> AsyncIterator[AiogramBot]:
    """A bot of aiogram."""
    session = AiohttpSession(api=TelegramAPIServer.from_base(telegram.server.url))
    async with AiogramBot(telegram.token, session=session) as bot:
        yield bot


async def test_methods_of_python_telegram_bot(telegram: Telegram, ptb: Bot) -> None:
    """Drafts, albums, reactions, topics and members through python-telegram-bot."""
    ann, stage = telegram.ann, telegram.stage
    assert await ptb.send_message_draft(ann, 7, "writ")
    assert stage.drafts(ann) == ["writ"]
    first, second = await ptb.send_media_group(ann, [InputMediaPhoto(PNG, caption="a"), InputMediaPhoto(PNG)])
    assert first.media_group_id == second.media_group_id
    voice = await ptb.send_voice(ann, b"OggS", duration=3)
    assert voice.voice and voice.voice.duration == 3
    assert await ptb.set_message_reaction(ann, first.message_id, ReactionEmoji.EYES)
    said = await ptb.send_message(ann, "*bold*\\.", parse_mode="MarkdownV2", reply_to_message_id=first.message_id)
    assert said.text_markdown_v2 == "*bold*\\."
    assert said.reply_to_message and said.reply_to_message.message_id == first.message_id
    assert await ptb.delete_message(ann, said.message_id)
    forum = stage.group("Team", [ann], forum=True, admin=True)
    topic = await ptb.create_forum_topic(forum, "Plans")
    assert await ptb.send_chat_action(forum, "typing", message_thread_id=topic.message_thread_id)
    assert [each.user.id for each in await ptb.get_chat_administrators(forum)] == [ann, telegram.bot]
    assert (await ptb.get_webhook_info()).url == ""
    assert await ptb.leave_chat(forum)


async def test_methods_of_aiogram(telegram: Telegram, gram: AiogramBot) -> None:
    """Drafts, albums, reactions, topics and members through aiogram."""
    ann, stage = telegram.ann, telegram.stage
    assert await gram.send_message_draft(ann, 7, text="writ")
    assert stage.drafts(ann) == ["writ"]
    file = BufferedInputFile(b"data", "a.txt")
    first, second = await gram.send_media_group(ann, [InputMediaDocument(media=file), InputMediaDocument(media=file)])
    assert first.media_group_id == second.media_group_id
    assert await gram.set_message_reaction(ann, first.message_id, [ReactionTypeEmoji(emoji="👀")])
    said = await gram.send_message(
        ann, "<b>bold</b>", parse_mode="HTML", reply_parameters=ReplyParameters(message_id=first.message_id)
    )
    assert said.html_text == "<b>bold</b>"
    assert await gram.delete_message(ann, said.message_id)
    forum = stage.group("Team", [ann], forum=True, admin=True)
    topic = await gram.create_forum_topic(forum, "Plans")
    assert await gram.send_chat_action(forum, "typing", message_thread_id=topic.message_thread_id)
    assert (await gram.get_chat_member(forum, ann)).status == "creator"
    assert await gram.leave_chat(forum)


async def test_errors_of_python_telegram_bot(telegram: Telegram, ptb: Bot) -> None:
    """Each kind of refusal is the error that python-telegram-bot has for it."""
    group = telegram.stage.group("Team", [telegram.ann])
    new = telegram.stage.migrate(group)
    with pytest.raises(ChatMigrated) as migrated:
        await ptb.send_message(group, "x")
    assert migrated.value.new_chat_id == new
    telegram.stage.fault("flood", retry_after=7)
    with pytest.raises(RetryAfter):
        await ptb.get_me()
    with pytest.raises(BadRequest, match=r"(?i)message is too long"):
        await ptb.send_message(telegram.ann, "x" * 4097)
    telegram.stage.block(telegram.ann)
    with pytest.raises(Forbidden, match="bot was blocked by the user"):
        await ptb.send_message(telegram.ann, "x")
    await ptb.set_webhook("http://127.0.0.1:9/")
    with pytest.raises(Conflict):
        await ptb.get_updates()
    telegram.stage.revoke()
    with pytest.raises(InvalidToken):
        await ptb.get_me()


async def test_errors_of_aiogram(telegram: Telegram, gram: AiogramBot) -> None:
    """Each kind of refusal is the error that aiogram has for it."""
    group = telegram.stage.group("Team", [telegram.ann])
    new = telegram.stage.migrate(group)
    with pytest.raises(aiogram.exceptions.TelegramMigrateToChat) as migrated:
        await gram.send_message(group, "x")
    assert migrated.value.migrate_to_chat_id == new
    telegram.stage.fault("flood", retry_after=7)
    with pytest.raises(aiogram.exceptions.TelegramRetryAfter):
        await gram.get_me()
    with pytest.raises(aiogram.exceptions.TelegramBadRequest, match="message is too long"):
        await gram.send_message(telegram.ann, "x" * 4097)
    telegram.stage.rules(upload=10)
    with pytest.raises(aiogram.exceptions.TelegramEntityTooLarge):
        await gram.send_document(telegram.ann, BufferedInputFile(b"x" * 11, "a.txt"))
    telegram.stage.block(telegram.ann)
    with pytest.raises(aiogram.exceptions.TelegramForbiddenError, match="bot was blocked by the user"):
        await gram.send_message(telegram.ann, "x")
    await gram.set_webhook("http://127.0.0.1:9/")
    with pytest.raises(aiogram.exceptions.TelegramConflictError):
        await gram.get_updates()
    telegram.stage.fault("error", status=503, description="Service Unavailable")
    with pytest.raises(aiogram.exceptions.TelegramServerError):
        await gram.get_me()
    telegram.stage.revoke()
    with pytest.raises(aiogram.exceptions.TelegramUnauthorizedError):
        await gram.get_me()
