"""The platform refuses what the real one refuses, with the same code and words."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Telegram
from .pictures import PNG

TEXT = "Bad Request: "
BUTTON = {"inline_keyboard": [[{"text": "Yes", "callback_data": "x" * 65}]]}
GIF_TOO_LONG = b"GIF89a" + (5000).to_bytes(2, "little") + (10).to_bytes(2, "little")


@pytest.mark.parametrize(
    ("method", "arguments", "says"),
    [
        ("sendMessage", {"text": ""}, "message text is empty"),
        ("sendMessage", {"text": " \n"}, "text must be non-empty"),
        ("sendMessage", {"text": "x" * 4097}, "message is too long"),
        ("sendMessage", {"text": "😀" * 2049}, "message is too long"),
        ("sendMessage", {"text": "x" * 40000}, "text is too long"),
        ("sendMessage", {"text": "x", "parse_mode": "BBCode"}, "unsupported parse_mode"),
        ("sendMessage", {"text": "x", "message_thread_id": 77}, "message thread not found"),
        ("sendMessage", {"text": "x", "reply_parameters": {"message_id": 77}}, "message to be replied not found"),
        ("sendMessage", {"text": "x", "reply_to_message_id": 77}, "message to be replied not found"),
        ("sendMessage", {"text": "x", "reply_markup": "{"}, "can't parse reply keyboard markup JSON object"),
        ("sendMessage", {"text": "x", "reply_markup": BUTTON}, "BUTTON_DATA_INVALID"),
        (
            "sendMessage",
            {"text": "x", "reply_markup": {"inline_keyboard": [[{"text": "Yes"}]]}},
            "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
        ),
        (
            "sendMessage",
            {"text": "😀x", "entities": [{"type": "bold", "offset": 1, "length": 1}]},
            "entity begins in a middle of a UTF-16 symbol at byte offset 4",
        ),
        ("sendMessage", {"chat_id": "", "text": "x"}, "chat_id is empty"),
        ("sendMessage", {"chat_id": 99, "text": "x"}, "chat not found"),
        ("sendMessage", {"chat_id": "@nobody", "text": "x"}, "chat not found"),
        ("editMessageText", {"message_id": 77, "text": "x"}, "message to edit not found"),
        ("editMessageReplyMarkup", {"message_id": 77}, "message to edit not found"),
        ("editMessageText", {"chat_id": "", "text": "x"}, "message identifier is not specified"),
        ("deleteMessage", {"message_id": 77}, "message to delete not found"),
        ("deleteMessage", {}, "message identifier is not specified"),
        ("setMessageReaction", {"message_id": 77, "reaction": []}, "message to react not found"),
        (
            "answerCallbackQuery",
            {"callback_query_id": "1"},
            "query is too old and response timeout expired or query ID",
        ),
        ("sendChatAction", {"action": "juggling"}, "wrong parameter action in request"),
        ("sendPhoto", {}, "there is no photo in the request"),
        ("sendPhoto", {"photo": ("a.png", b"text")}, "IMAGE_PROCESS_FAILED"),
        ("sendPhoto", {"photo": ("a.gif", GIF_TOO_LONG)}, "PHOTO_INVALID_DIMENSIONS"),
        ("sendDocument", {"document": "no-such-file"}, "wrong file identifier/HTTP URL specified"),
        ("sendDocument", {"document": ("a.txt", b"")}, "file must be non-empty"),
        ("sendDocument", {"document": ("a.txt", b"x"), "caption": "x" * 1025}, "message caption is too long"),
        ("sendVoice", {}, "there is no voice in the request"),
        ("sendMediaGroup", {}, 'parameter "media" is required'),
        ("sendMediaGroup", {"media": [{"type": "photo"}]}, "can't parse InputMedia: media not found"),
        ("sendMediaGroup", {"media": [{"type": "photo", "media": "x"}] * 11}, "too many messages to send as an album"),
        ("getFile", {}, "file_id not specified"),
        ("getFile", {"file_id": "no-such-file"}, "invalid file_id"),
        ("sendMessageDraft", {"draft_id": 1, "text": ""}, "text must be non-empty"),
        ("createForumTopic", {"name": "Plans"}, "the chat is not a forum"),
        ("leaveChat", {}, "chat member status can't be changed in private chats"),
        ("getChatMember", {"user_id": 0}, "invalid user_id specified"),
        ("setMyCommands", {"commands": [{"command": "Start", "description": "x"}]}, "BOT_COMMAND_INVALID"),
        (
            "setMyCommands",
            {"commands": [{"command": "x" * 33, "description": "x"}]},
            "command length must not exceed 32",
        ),
        (
            "setMyCommands",
            {"commands": [{"command": "start", "description": ""}]},
            "command description must be non-empty",
        ),
        ("setWebhook", {"url": "nonsense"}, "invalid webhook URL specified"),
        ("setWebhook", {"url": "http://example.com/"}, "bad webhook: An HTTPS URL must be provided for webhook"),
        (
            "setWebhook",
            {"url": "https://example.com:9000/"},
            "bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443",
        ),
        (
            "setWebhook",
            {"url": "http://localhost:1/", "secret_token": "a b"},
            "secret token contains unallowed characters",
        ),
        ("setWebhook", {"url": "http://localhost:1/", "secret_token": "a" * 257}, "secret token is too long"),
    ],
)
async def test_it_refuses(telegram: Telegram, method: str, arguments: dict[str, Any], says: str) -> None:
    """A call that the platform cannot follow is refused with the field and the rule, and changes nothing."""
    before = telegram.stage.history(telegram.ann)
    said = await telegram.call(method, **({"chat_id": telegram.ann} | arguments))
    assert said["error_code"] == 400
    assert said["description"].startswith(f"Bad Request: {says}")
    assert telegram.stage.history(telegram.ann) == before


async def test_a_wrong_token_is_unauthorized(telegram: Telegram) -> None:
    """A token that nobody gave out is refused with 401, a malformed one is no path at all."""
    wrong = (await telegram.client.get("/bot123:ABC/getMe")).json()
    assert wrong == {"ok": False, "error_code": 401, "description": "Unauthorized"}
    assert telegram.stage.calls()[-1]["outcome"] == "401 Unauthorized"
    assert (await telegram.client.get("/botnonsense/getMe")).status_code == 404
    assert (await telegram.client.get("/")).json()["description"] == "Not Found"


async def test_a_revoked_token_is_unauthorized_until_it_is_restored(telegram: Telegram) -> None:
    """A revoked token is worth nothing."""
    telegram.stage.revoke()
    assert await telegram.refused("getMe") == "Unauthorized"
    telegram.stage.revoke(revoked=False)
    assert (await telegram.done("getMe"))["username"] == "halo_bot"


async def test_an_unknown_method_is_not_found(telegram: Telegram) -> None:
    """A method that does not exist is refused with 404; the case of a name does not matter."""
    assert await telegram.refused("sendTelepathy") == "Not Found: method not found"
    assert (await telegram.done("GETME"))["is_bot"] is True


async def test_a_person_who_blocked_the_bot_is_forbidden(telegram: Telegram) -> None:
    """Nothing reaches somebody who blocked the bot, until they unblock it."""
    telegram.stage.block(telegram.ann)
    said = await telegram.call("sendMessage", chat_id=telegram.ann, text="x")
    assert (said["error_code"], said["description"]) == (403, "Forbidden: bot was blocked by the user")
    telegram.stage.block(telegram.ann, blocked=False)
    await telegram.done("sendMessage", chat_id=telegram.ann, text="x")


async def test_a_stranger_cannot_be_written_to(telegram: Telegram) -> None:
    """A bot does not begin a conversation."""
    stranger = telegram.stage.user("Bob")
    said = await telegram.refused("sendMessage", chat_id=stranger, text="x")
    assert said == "Forbidden: bot can't initiate conversation with a user"
    telegram.stage.say(stranger, "hello")
    await telegram.done("sendMessage", chat_id=stranger, text="x")


@pytest.mark.parametrize("kind", ["group", "supergroup"])
@pytest.mark.parametrize(("status", "says"), [("kicked", "was kicked from"), ("left", "is not a member of")])
async def test_a_bot_that_is_out_is_forbidden(telegram: Telegram, kind: Any, status: Any, says: str) -> None:
    """A bot that was put out of a group cannot write there."""
    group = telegram.stage.group("Team", [telegram.ann], kind=kind)
    telegram.stage.stand(group, telegram.bot, status)
    said = await telegram.refused("sendMessage", chat_id=group, text="x")
    assert said == f"Forbidden: bot {says} the {kind} chat"


async def test_a_group_that_became_a_supergroup_names_it(telegram: Telegram) -> None:
    """A send to a group that was upgraded is refused with the new number, which works."""
    group = telegram.stage.group("Team", [telegram.ann])
    new = telegram.stage.migrate(group)
    said = await telegram.call("sendMessage", chat_id=group, text="x")
    assert said["description"] == "Bad Request: group chat was upgraded to a supergroup chat"
    assert said["parameters"] == {"migrate_to_chat_id": new}
    await telegram.done("sendMessage", chat_id=new, text="x")


async def test_what_is_not_changed_is_refused(telegram: Telegram) -> None:
    """An edit that changes nothing is refused; one that takes the buttons away changes something."""
    markup = {"inline_keyboard": [[{"text": "Yes", "callback_data": "yes"}]]}
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text="x", reply_markup=markup)
    place = {"chat_id": telegram.ann, "message_id": sent["message_id"]}
    said = await telegram.refused("editMessageText", text="<i></i>x ", parse_mode="HTML", reply_markup=markup, **place)
    assert said.startswith("Bad Request: message is not modified: specified new message content and reply markup")
    await telegram.done("editMessageText", text="x", **place)
    assert "not modified" in await telegram.refused("editMessageReplyMarkup", **place)


async def test_only_its_own_texts_are_edited(telegram: Telegram) -> None:
    """A bot edits neither what a person said nor a text that is none."""
    said = telegram.stage.say(telegram.ann, "mine")
    refused = await telegram.refused("editMessageText", chat_id=telegram.ann, message_id=said, text="x")
    assert refused == "Bad Request: message can't be edited"
    photo = await telegram.done("sendPhoto", chat_id=telegram.ann, photo=("a.png", PNG))
    place = {"chat_id": telegram.ann, "message_id": photo["message_id"]}
    refused = await telegram.refused("editMessageText", text="x", **place)
    assert refused == "Bad Request: there is no text in the message to edit"
    assert (await telegram.done("editMessageCaption", caption="x", **place))["caption"] == "x"


async def test_a_deleted_message_is_gone(telegram: Telegram) -> None:
    """What was deleted can be neither edited, nor answered, nor deleted again."""
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text="x")
    place = {"chat_id": telegram.ann, "message_id": sent["message_id"]}
    await telegram.done("deleteMessage", **place)
    assert "to delete not found" in await telegram.refused("deleteMessage", **place)
    assert "to edit not found" in await telegram.refused("editMessageText", text="y", **place)
    reply = {"message_id": sent["message_id"], "allow_sending_without_reply": True}
    assert "reply_to_message" not in await telegram.done(
        "sendMessage", chat_id=telegram.ann, text="y", reply_parameters=reply
    )


async def test_deleting_needs_the_right_and_the_time(telegram: Telegram) -> None:
    """In a group only administrators delete what others said; after two days nobody does."""
    group = telegram.stage.group("Team", [telegram.ann])
    said = telegram.stage.say(telegram.ann, "mine", chat=group)
    assert "can't be deleted" in await telegram.refused("deleteMessage", chat_id=group, message_id=said)
    telegram.stage.stand(group, telegram.bot, "administrator")
    await telegram.done("deleteMessage", chat_id=group, message_id=said)
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text="x")
    telegram.stage.advance(49 * 3600)
    place = {"chat_id": telegram.ann, "message_id": sent["message_id"]}
    assert "can't be deleted" in await telegram.refused("deleteMessage", **place)


async def test_a_topic_that_is_closed_or_gone_takes_nothing(telegram: Telegram) -> None:
    """A thread takes messages only as long as it is there and open."""
    forum = telegram.stage.group("Team", [telegram.ann], forum=True, admin=True)
    topic = await telegram.done("createForumTopic", chat_id=forum, name="Plans")
    where = {"chat_id": forum, "message_thread_id": topic["message_thread_id"]}
    sent = await telegram.done("sendMessage", text="x", **where)
    assert sent["is_topic_message"] is True
    await telegram.done("closeForumTopic", **where)
    assert await telegram.refused("sendMessage", text="x", **where) == "Bad Request: TOPIC_CLOSED"
    await telegram.done("reopenForumTopic", **where)
    await telegram.done("deleteForumTopic", **where)
    assert await telegram.refused("sendMessage", text="x", **where) == "Bad Request: message thread not found"


async def test_the_general_topic_has_no_thread(telegram: Telegram) -> None:
    """A forum's general topic is written to without a number; 1 is no thread."""
    forum = telegram.stage.group("Team", [telegram.ann], forum=True)
    said = await telegram.refused("sendMessage", chat_id=forum, text="x", message_thread_id=1)
    assert said == "Bad Request: message thread not found"
    assert "message_thread_id" not in await telegram.done("sendMessage", chat_id=forum, text="x")


async def test_topics_need_rights_and_names(telegram: Telegram) -> None:
    """Only an administrator begins topics, with a name of at most 128 units."""
    forum = telegram.stage.group("Team", [telegram.ann], forum=True)
    said = await telegram.refused("createForumTopic", chat_id=forum, name="Plans")
    assert said == "Bad Request: not enough rights to create a topic"
    telegram.stage.stand(forum, telegram.bot, "administrator")
    assert "name must be non-empty" in await telegram.refused("createForumTopic", chat_id=forum, name=" ")
    assert "TOPIC_TITLE_TOO_LONG" in await telegram.refused("createForumTopic", chat_id=forum, name="x" * 129)


async def test_files_over_their_limits_are_refused(telegram: Telegram) -> None:
    """What is too large to be uploaded is 413, a photo has a limit of its own, and so has what is fetched."""
    sent = await telegram.done("sendDocument", chat_id=telegram.ann, document=("a.bin", b"x" * 3000))
    telegram.stage.rules(upload=2000, photo=50, download=1000)
    said = await telegram.call("sendDocument", chat_id=telegram.ann, document=("a.bin", b"x" * 3000))
    assert (said["error_code"], said["description"]) == (413, "Request Entity Too Large")
    assert "is too big for a photo" in await telegram.refused("sendPhoto", chat_id=telegram.ann, photo=("a.png", PNG))
    said_file = await telegram.refused("getFile", file_id=sent["document"]["file_id"])
    assert said_file == "Bad Request: file is too big"


async def test_a_request_over_fifty_megabytes_is_refused_before_it_is_kept(telegram: Telegram) -> None:
    """A body that no file of 50 MB explains is 413, and the connection goes on."""
    said = await telegram.call("sendDocument", chat_id=telegram.ann, document=("a.bin", bytes(52 * 1024 * 1024)))
    assert said["error_code"] == 413
    await telegram.done("getMe")


async def test_a_file_is_what_it_was_sent_as(telegram: Telegram) -> None:
    """A photo's number is none of a document, and no other bot's number is worth anything."""
    sent = await telegram.done("sendPhoto", chat_id=telegram.ann, photo=("a.png", PNG))
    file_id = sent["photo"][-1]["file_id"]
    said = await telegram.refused("sendDocument", chat_id=telegram.ann, document=file_id)
    assert said == "Bad Request: can't use file of type Photo as Document"
    again = await telegram.done("sendPhoto", chat_id=telegram.ann, photo=file_id)
    assert again["photo"][-1]["file_unique_id"] == sent["photo"][-1]["file_unique_id"]
    other = telegram.stage.bot("other_bot")
    wrong = await telegram.client.get(f"/bot{other['token']}/getFile", params={"file_id": file_id})
    assert wrong.json()["description"] == "Bad Request: invalid file_id"


async def test_albums_keep_their_kinds_apart(telegram: Telegram) -> None:
    """Documents are in albums of their own."""
    media = [{"type": "photo", "media": "attach://a"}, {"type": "document", "media": "attach://b"}]
    files = {"a": ("a.png", PNG), "b": ("b.txt", b"x")}
    said = await telegram.refused("sendMediaGroup", chat_id=telegram.ann, media=media, **files)
    assert said == "Bad Request: can't use the media of the specified type in the album"


async def test_a_draft_is_for_one_person(telegram: Telegram) -> None:
    """A text that is still written is shown in private chats only."""
    group = telegram.stage.group("Team", [telegram.ann])
    said = await telegram.refused("sendMessageDraft", chat_id=group, draft_id=1, text="x")
    assert said == "Bad Request: TEXTDRAFT_PEER_INVALID"
    assert "RANDOM_ID_EMPTY" in await telegram.refused("sendMessageDraft", chat_id=telegram.ann, draft_id=0, text="x")


async def test_a_webhook_on_loopback_is_strict_if_it_has_to_be(telegram: Telegram) -> None:
    """Without the switch loopback is refused like everywhere else."""
    telegram.stage.rules(plain_webhooks=False)
    said = await telegram.refused("setWebhook", url="https://127.0.0.1/")
    assert said == "Bad Request: bad webhook: IP address 127.0.0.1 is reserved"


async def test_a_logged_out_bot_is_nobody_for_ten_minutes(telegram: Telegram) -> None:
    """After logOut the token is refused until ten minutes have gone by."""
    await telegram.done("logOut")
    assert await telegram.refused("getMe") == "Bad Request: Logged out"
    telegram.stage.advance(601)
    await telegram.done("getMe")


@pytest.mark.parametrize("body", [b"[]", b"{", b"3"])
async def test_json_that_is_no_object_is_refused(telegram: Telegram, body: bytes) -> None:
    """A JSON body is an object."""
    headers = {"content-type": "application/json"}
    response = await telegram.client.post(f"/bot{telegram.token}/getMe", content=body, headers=headers)
    assert response.json()["description"] == "Bad Request: JSON object expected"


async def test_flood_limits_hold_by_the_platforms_clock(telegram: Telegram) -> None:
    """With the switch on: one message a second to a chat, twenty a minute to a group, thirty a second in all."""
    telegram.stage.rules(flood=True)
    await telegram.done("sendMessage", chat_id=telegram.ann, text="1")
    said = await telegram.call("sendMessage", chat_id=telegram.ann, text="2")
    assert (said["error_code"], said["parameters"]) == (429, {"retry_after": 1})
    assert said["description"] == "Too Many Requests: retry after 1"
    telegram.stage.advance(1)
    await telegram.done("sendMessage", chat_id=telegram.ann, text="2")
    group = telegram.stage.group("Team", [telegram.ann])
    for _ in range(20):
        await telegram.done("sendMessage", chat_id=group, text="x")
        telegram.stage.advance(1)
    said = await telegram.call("sendMessage", chat_id=group, text="x")
    assert said["parameters"] == {"retry_after": 40}


async def test_thirty_a_second_are_allowed_in_all(telegram: Telegram) -> None:
    """The 31st message of a second waits, whomever it is for."""
    telegram.stage.rules(flood=True)
    people = [telegram.stage.user(f"P{number}", started=[telegram.bot]) for number in range(31)]
    for person in people[:30]:
        await telegram.done("sendMessage", chat_id=person, text="x")
    said = await telegram.call("sendMessage", chat_id=people[30], text="x")
    assert said["error_code"] == 429
