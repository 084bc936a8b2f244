"""What people do reaches bots in the platform's shapes, and what bots do is seen as people see it."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Telegram
from .pictures import PNG


async def heard(telegram: Telegram) -> list[dict[str, Any]]:
    """Return the updates that wait, and confirm them."""
    updates: list[dict[str, Any]] = await telegram.done("getUpdates")
    if updates:
        await telegram.done("getUpdates", offset=updates[-1]["update_id"] + 1)
    return updates


async def heard_texts(telegram: Telegram) -> list[str]:
    """Return the texts that were heard."""
    messages = [update.get("message", {}) for update in await heard(telegram)]
    return [message["text"] for message in messages if "text" in message]


async def test_a_message_has_its_shape(telegram: Telegram) -> None:
    """A private message names its person, its chat, its second."""
    number = telegram.stage.say(telegram.ann, "hello")
    (update,) = await heard(telegram)
    person = {"id": telegram.ann, "first_name": "Ann", "username": "ann"}
    assert update["message"] == {
        "message_id": number,
        "from": person | {"is_bot": False, "language_code": "en"},
        "chat": person | {"type": "private"},
        "date": 1_800_000_000,
        "text": "hello",
    }


async def test_a_reply_carries_what_it_answers(telegram: Telegram) -> None:
    """A reply holds the message it answers, without what that one answered."""
    first = await telegram.done("sendMessage", chat_id=telegram.ann, text="first")
    second = telegram.stage.say(telegram.ann, "second", reply_to=first["message_id"])
    telegram.stage.say(telegram.ann, "third", reply_to=second)
    updates = await heard(telegram)
    assert updates[0]["message"]["reply_to_message"] == first
    assert "reply_to_message" not in updates[1]["message"]["reply_to_message"]


async def test_an_answer_quotes(telegram: Telegram) -> None:
    """A quote is a part of what is answered, or is refused."""
    asked = telegram.stage.say(telegram.ann, "one 😀 two")
    quote = {"message_id": asked, "quote": "two"}
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text="x", reply_parameters=quote)
    assert sent["quote"] == {"text": "two", "position": 7, "is_manual": True}
    said = await telegram.refused(
        "sendMessage", chat_id=telegram.ann, text="x", reply_parameters=quote | {"quote": "three"}
    )
    assert said == "Bad Request: QUOTE_TEXT_INVALID"


async def test_an_edit_is_an_update_with_its_time(telegram: Telegram) -> None:
    """An edited message comes with `edit_date`, and its history keeps what it was."""
    number = telegram.stage.say(telegram.ann, "frist")
    telegram.stage.advance(5)
    telegram.stage.edit(telegram.ann, number, "first")
    _, update = await heard(telegram)
    edited = update["edited_message"]
    assert (edited["text"], edited["date"], edited["edit_date"]) == ("first", 1_800_000_000, 1_800_000_005)
    assert telegram.stage.history(telegram.ann)[0]["earlier"] == ["frist"]


async def test_with_privacy_a_bot_hears_what_is_meant_for_it(telegram: Telegram) -> None:
    """In a group only commands, mentions and replies reach a bot, unless it may hear everything."""
    group = telegram.stage.group("Team", [telegram.ann])
    sent = await telegram.done("sendMessage", chat_id=group, text="hi")
    await heard(telegram)

    def speak() -> None:
        for text in ("chatter", "/go", "/go@other_bot", "/go@halo_bot", "hey @halo_bot", "hey @halo_bottom"):
            telegram.stage.say(telegram.ann, text, chat=group)
        telegram.stage.say(telegram.ann, "a reply", chat=group, reply_to=sent["message_id"])

    speak()
    meant = ["/go", "/go@halo_bot", "hey @halo_bot", "a reply"]
    assert await heard_texts(telegram) == meant
    telegram.stage.privacy(False)
    speak()
    assert len(await heard_texts(telegram)) == 7
    telegram.stage.privacy(True)
    telegram.stage.stand(group, telegram.bot, "administrator")
    speak()
    assert len(await heard_texts(telegram)) == 7
    assert (await telegram.done("getMe"))["can_read_all_group_messages"] is False


async def test_bots_do_not_hear_bots(telegram: Telegram) -> None:
    """What one bot says is no update of another, even with its name in it."""
    other = telegram.stage.bot("other_bot")
    group = telegram.stage.group("Team", [telegram.ann])
    before = telegram.stage.pending(bot=other["id"])
    await telegram.done("sendMessage", chat_id=group, text="hey @other_bot")
    assert telegram.stage.pending(bot=other["id"]) == before
    assert telegram.stage.texts(chat=group) == ["hey @other_bot"]


async def test_a_changed_standing_is_an_update(telegram: Telegram) -> None:
    """Being let in, put out and blocked is told, with what was before."""
    group = telegram.stage.group("Team", [telegram.ann])
    telegram.stage.stand(group, telegram.bot, "kicked")
    telegram.stage.block(telegram.ann)
    updates = await heard(telegram)
    changes = [update["my_chat_member"] for update in updates if "my_chat_member" in update]
    stands = [(each["old_chat_member"]["status"], each["new_chat_member"]["status"]) for each in changes]
    assert stands == [("left", "member"), ("member", "kicked"), ("member", "kicked")]
    assert [each["chat"]["type"] for each in changes] == ["group", "group", "private"]
    (notice,) = (update["message"] for update in updates if "message" in update)
    assert [user["id"] for user in notice["new_chat_members"]] == [telegram.bot]


async def test_leaving_ends_what_is_heard(telegram: Telegram) -> None:
    """A bot that left hears nothing more of a group."""
    group = telegram.stage.group("Team", [telegram.ann])
    await telegram.done("leaveChat", chat_id=group)
    await heard(telegram)
    telegram.stage.say(telegram.ann, "/go", chat=group)
    assert await heard_texts(telegram) == []


async def test_a_migration_is_told_in_both_groups(telegram: Telegram) -> None:
    """The old group names the new one, the new one the old."""
    group = telegram.stage.group("Team", [telegram.ann])
    await heard(telegram)
    new = telegram.stage.migrate(group)
    leaves, begins = (update["message"] for update in await heard(telegram))
    assert (leaves["chat"]["id"], leaves["migrate_to_chat_id"]) == (group, new)
    assert (begins["chat"], begins["migrate_from_chat_id"]) == (
        {"id": new, "title": "Team", "type": "supergroup"},
        group,
    )
    telegram.stage.say(telegram.ann, "/go", chat=new)
    assert await heard_texts(telegram) == ["/go"]


async def test_a_message_in_a_topic_answers_its_first_message(telegram: Telegram) -> None:
    """In a topic each message has the thread's number, and counts as an answer to the notice that began it."""
    forum = telegram.stage.group("Team", [telegram.ann], forum=True, admin=True)
    topic = telegram.stage.topic(forum, "Plans")
    telegram.stage.say(telegram.ann, "here", chat=forum, thread=topic)
    *_, began, said = (update.get("message") for update in await heard(telegram))
    assert began and said
    assert (said["message_thread_id"], said["is_topic_message"]) == (topic, True)
    assert said["reply_to_message"]["message_id"] == began["message_id"] == topic
    assert said["reply_to_message"]["forum_topic_created"]["name"] == "Plans"


async def test_a_thread_outside_of_topics_is_no_place_to_write_to(telegram: Telegram) -> None:
    """A reply in a supergroup has a thread's number without being in a topic; writing there goes to the group."""
    group = telegram.stage.group("Team", [telegram.ann], kind="supergroup", admin=True)
    first = telegram.stage.say(telegram.ann, "first", chat=group)
    telegram.stage.say(telegram.ann, "second", chat=group, reply_to=first)
    said = (await heard(telegram))[-1]["message"]
    assert said["message_thread_id"] == first
    assert "is_topic_message" not in said
    sent = await telegram.done("sendMessage", chat_id=group, text="x", message_thread_id=first)
    assert "message_thread_id" not in sent


async def test_an_answer_goes_to_the_topic_of_what_it_answers(telegram: Telegram) -> None:
    """A reply without a thread goes where its message is."""
    forum = telegram.stage.group("Team", [telegram.ann], forum=True, admin=True)
    topic = telegram.stage.topic(forum, "Plans")
    asked = telegram.stage.say(telegram.ann, "here", chat=forum, thread=topic)
    sent = await telegram.done("sendMessage", chat_id=forum, text="x", reply_parameters={"message_id": asked})
    assert sent["message_thread_id"] == topic


async def test_a_photo_has_sizes_and_a_caption(telegram: Telegram) -> None:
    """A photo comes in sizes, the largest last, and is fetched by its path."""
    telegram.stage.send(telegram.ann, "photo", PNG, caption="see /go")
    (update,) = await heard(telegram)
    message = update["message"]
    largest = message["photo"][-1]
    assert (largest["width"], largest["height"], largest["file_size"]) == (1, 1, len(PNG))
    assert (message["caption"], message["caption_entities"][0]["type"]) == ("see /go", "bot_command")
    file = await telegram.done("getFile", file_id=largest["file_id"])
    fetched = await telegram.client.get(f"/file/bot{telegram.token}/{file['file_path']}")
    assert fetched.content == PNG
    assert (await telegram.client.get(f"/file/bot{telegram.token}/photos/none.jpg")).status_code == 404


@pytest.mark.parametrize("kind", ["document", "voice", "video", "audio", "video_note"])
async def test_files_come_and_go(telegram: Telegram, kind: str) -> None:
    """A file of each kind reaches the bot and goes back by its number."""
    telegram.stage.send(telegram.ann, kind, b"data", filename="a.bin", mime="application/x-made-up")
    (update,) = await heard(telegram)
    file = update["message"][kind]
    method = "send" + "".join(word.capitalize() for word in kind.split("_"))
    sent = await telegram.done(method, chat_id=telegram.ann, **{kind: file["file_id"]})
    assert sent[kind] == file
    fresh = await telegram.done(method, chat_id=telegram.ann, duration=7, **{kind: ("b.bin", b"other")})
    assert telegram.stage.content(fresh[kind]["file_id"]) == b"other"
    assert fresh[kind].get("duration", 7) == 7


async def test_an_album_is_one(telegram: Telegram) -> None:
    """The parts of an album share its number, each with its own caption."""
    media = [{"type": "photo", "media": "attach://a", "caption": "<b>A</b>", "parse_mode": "HTML"}]
    media += [{"type": "video", "media": "attach://b"}]
    files = {"a": ("a.png", PNG), "b": ("b.mp4", b"film")}
    sent = await telegram.done("sendMediaGroup", chat_id=telegram.ann, media=media, **files)
    assert len({each["media_group_id"] for each in sent}) == 1
    assert sent[0]["caption_entities"] == [{"type": "bold", "offset": 0, "length": 1}]
    assert [each["media"] for each in telegram.stage.shown(telegram.ann)] == ["photo", "video"]


async def test_a_button_waits_for_its_answer(telegram: Telegram) -> None:
    """A pressed button is a query with its message; it is answered once."""
    keyboard = {
        "inline_keyboard": [[{"text": "Yes", "callback_data": "y" * 64}, {"text": "See", "url": "https://a.b"}]]
    }
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text="?", reply_markup=keyboard)
    number = telegram.stage.press(telegram.ann, sent["message_id"], "y" * 64)
    (update,) = await heard(telegram)
    query = update["callback_query"]
    assert (query["id"], query["data"], query["message"]) == (number, "y" * 64, sent)
    await telegram.done("answerCallbackQuery", callback_query_id=number, text="ok", show_alert=True)
    assert telegram.stage.popups() == [{"query": number, "user_id": telegram.ann, "text": "ok", "alert": True}]
    assert "query is too old" in await telegram.refused("answerCallbackQuery", callback_query_id=number)
    with pytest.raises(ValueError, match="no button 'no'"):
        telegram.stage.press(telegram.ann, sent["message_id"], "no")


async def test_a_history_shows_duplicates_edits_and_deletions(telegram: Telegram) -> None:
    """What a bot said twice stands there twice; what it took away is known, but not shown."""
    sent = [await telegram.done("sendMessage", chat_id=telegram.ann, text="again") for _ in range(2)]
    gone = await telegram.done("sendMessage", chat_id=telegram.ann, text="a slip")
    place = {"chat_id": telegram.ann, "message_id": sent[1]["message_id"]}
    await telegram.done("editMessageText", text="better", **place)
    await telegram.done("deleteMessage", chat_id=telegram.ann, message_id=gone["message_id"])
    assert telegram.stage.texts(telegram.ann) == ["again", "better"]
    history = telegram.stage.history(telegram.ann)
    assert [(each["text"], each["earlier"], each["deleted"]) for each in history] == [
        ("again", [], False),
        ("better", ["again"], False),
        ("a slip", [], True),
    ]


async def test_a_draft_is_shown_until_its_message_comes(telegram: Telegram) -> None:
    """A text that is still written changes in place and is gone with the message."""
    for text in ("Hel", "Hello"):
        await telegram.done("sendMessageDraft", chat_id=telegram.ann, draft_id=7, text=text)
    assert telegram.stage.drafts(telegram.ann) == ["Hello"]
    await telegram.done("sendMessage", chat_id=telegram.ann, text="Hello!")
    assert telegram.stage.drafts(telegram.ann) == []
    assert telegram.stage.texts(telegram.ann) == ["Hello!"]


async def test_reactions_and_actions_are_seen(telegram: Telegram) -> None:
    """A reaction stays with its message, an action with its thread."""
    said = telegram.stage.say(telegram.ann, "hello")
    place = {"chat_id": telegram.ann, "message_id": said}
    await telegram.done("setMessageReaction", reaction=[{"type": "emoji", "emoji": "👀"}], **place)
    assert telegram.stage.history(telegram.ann)[0]["reactions"] == {telegram.bot: [{"type": "emoji", "emoji": "👀"}]}
    unknown = [{"type": "emoji", "emoji": "✅"}]
    assert "REACTION_INVALID" in await telegram.refused("setMessageReaction", reaction=unknown, **place)
    await telegram.done("sendChatAction", chat_id=telegram.ann, action="typing")
    assert telegram.stage.actions(telegram.ann) == [(0, "typing")]


async def test_commands_are_kept_by_scope_and_language(telegram: Telegram) -> None:
    """Each scope and language has a list of its own."""
    begin, other = [{"command": "start", "description": "Begin"}], [{"command": "stop", "description": "Ende"}]
    await telegram.done("setMyCommands", commands=begin)
    scoped = {"scope": {"type": "all_group_chats"}, "language_code": "de"}
    await telegram.done("setMyCommands", commands=other, **scoped)
    assert await telegram.done("getMyCommands") == begin
    assert await telegram.done("getMyCommands", **scoped) == other
    await telegram.done("deleteMyCommands", **scoped)
    assert await telegram.done("getMyCommands", **scoped) == []
    assert len(telegram.stage.commands()) == 1


async def test_a_chat_says_what_it_is(telegram: Telegram) -> None:
    """getChat and its kin say title, kind and members."""
    forum = telegram.stage.group("Team", [telegram.ann], forum=True, admin=True)
    chat = await telegram.done("getChat", chat_id=forum)
    assert (chat["title"], chat["type"], chat["is_forum"]) == ("Team", "supergroup", True)
    assert (await telegram.done("getChatMember", chat_id=forum, user_id=telegram.ann))["status"] == "creator"
    leading = await telegram.done("getChatAdministrators", chat_id=forum)
    assert [each["user"]["id"] for each in leading] == [telegram.ann, telegram.bot]
    assert await telegram.done("getChatMemberCount", chat_id=forum) == 2


@pytest.mark.parametrize("how", ["query", "form", "json", "multipart"])
async def test_arguments_come_in_every_way(telegram: Telegram, how: str) -> None:
    """A call says the same in its query, as a form, as JSON and in parts."""
    arguments: dict[str, Any] = {"chat_id": str(telegram.ann), "text": "hé & 😀=+"}
    ways: dict[str, dict[str, Any]] = {
        "query": {"params": arguments},
        "form": {"data": arguments},
        "json": {"json": arguments | {"chat_id": telegram.ann, "disable_notification": True, "reply_markup": None}},
        "multipart": {"files": {name: (None, each) for name, each in arguments.items()}},
    }
    verb = "GET" if how == "query" else "POST"
    response = await telegram.client.request(verb, f"/bot{telegram.token}/sendMessage", **ways[how])
    assert response.json()["result"]["text"] == "hé & 😀=+"
