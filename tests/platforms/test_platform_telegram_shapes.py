"""Everything the platform says has the shape that the clients' own models describe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from .conftest import Telegram
from .pictures import PNG

if (find_spec("telegram") is None or find_spec("aiogram") is None) and not os.environ.get("HALO_CI"):
    pytest.skip("python-telegram-bot or aiogram is not installed here", allow_module_level=True)
import aiogram.types
from pydantic import BaseModel
from telegram import Bot, Update

KEYBOARD = {"inline_keyboard": [[{"text": "Yes", "callback_data": "yes"}, {"text": "See", "url": "https://a.b"}]]}


async def play(telegram: Telegram) -> list[dict[str, Any]]:
    """Let everything happen once; return the bot's own messages."""
    stage, ann = telegram.stage, telegram.ann
    bob = stage.user("Bob", started=[telegram.bot])
    for kind in ("photo", "document", "voice", "video", "audio", "video_note"):
        stage.send(ann, kind, PNG, filename="a.png", caption="see https://a.b")
    sent = await telegram.done(
        "sendMessage", chat_id=ann, text="<b>x</b> @ann", parse_mode="HTML", reply_markup=KEYBOARD
    )
    said = stage.say(ann, "/start hello #tag", reply_to=sent["message_id"])
    stage.edit(ann, said, "changed")
    stage.press(ann, sent["message_id"], "yes")
    stage.react(ann, sent["message_id"], "👍")
    group = stage.group("Team", [ann, bob], admin=True)
    forum = stage.group("Forum", [ann, bob], forum=True, admin=True)
    topic = stage.topic(forum, "Plans")
    stage.say(bob, "here", chat=forum, thread=topic)
    stage.stand(forum, bob, "kicked")
    stage.migrate(group)
    for status in ("member", "left", "kicked"):
        stage.stand(forum, telegram.bot, status)
    stage.block(bob)
    messages = [sent, await telegram.done("sendPhoto", chat_id=ann, photo=("a.png", PNG), caption="x")]
    messages.append(
        await telegram.done(
            "editMessageText", chat_id=ann, message_id=sent["message_id"], text="y", reply_markup=KEYBOARD
        )
    )
    return messages


@pytest.fixture
async def said(telegram: Telegram) -> dict[str, list[dict[str, Any]]]:
    """All updates and messages of a busy day."""
    kinds = ["message_reaction", "chat_member", "my_chat_member", "message", "edited_message", "callback_query"]
    await telegram.done("getUpdates", allowed_updates=kinds)
    messages = await play(telegram)
    updates = await telegram.done("getUpdates")
    assert {next(key for key in update if key != "update_id") for update in updates} == {*kinds}
    return {"updates": updates, "messages": messages}


def unknown(value: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that a model does not know."""
    if isinstance(value, BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from unknown(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from unknown(each, f"{path}[]")


async def test_aiogram_knows_every_field(said: dict[str, list[dict[str, Any]]]) -> None:
    """No update and no message lacks a field that is required, or has one that does not exist."""
    updates = [aiogram.types.Update.model_validate(each) for each in said["updates"]]
    messages = [aiogram.types.Message.model_validate(each) for each in said["messages"]]
    assert [*unknown([*updates, *messages])] == []


async def test_python_telegram_bot_reads_them_as_they_were(said: dict[str, list[dict[str, Any]]]) -> None:
    """What python-telegram-bot reads and writes again is what the platform said."""
    bot = Bot("1:a")
    for each in said["updates"]:
        assert Update.de_json(each, bot).to_dict()["update_id"] == each["update_id"]
        message = each.get("message")
        if message and "text" in message:
            again = Update.de_json(each, bot).to_dict()["message"]
            assert {name: again[name] for name in message if name != "reply_to_message"} | {} == {
                name: value for name, value in message.items() if name != "reply_to_message"
            }


async def test_aiogram_knows_chats_and_members(telegram: Telegram) -> None:
    """The answers of other methods have their models' shapes too."""
    forum = telegram.stage.group("Forum", [telegram.ann], forum=True, admin=True)
    topic = await telegram.done("createForumTopic", chat_id=forum, name="Plans")
    members = await telegram.done("getChatAdministrators", chat_id=forum)
    read: list[BaseModel] = [
        aiogram.types.User.model_validate(await telegram.done("getMe")),
        aiogram.types.WebhookInfo.model_validate(await telegram.done("getWebhookInfo")),
        aiogram.types.ForumTopic.model_validate(topic),
        aiogram.types.ChatMemberOwner.model_validate(members[0]),
        aiogram.types.ChatMemberAdministrator.model_validate(members[1]),
    ]
    for chat in (forum, telegram.ann):
        read.append(aiogram.types.ChatFullInfo.model_validate(await telegram.done("getChat", chat_id=chat)))
    assert [*unknown(read)] == []
