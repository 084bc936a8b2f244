"""Methods that change what was said: edits, deletions, reactions, answers to buttons."""

from __future__ import annotations

from dataclasses import replace

from .calls import Answer, Call, Method
from .keyboards import Markup, inline, read_markup
from .posts import Body, Post
from .refusals import bad_request
from .units import length

NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current content "
    "and reply markup of the message"
)
OLD_QUERY = "query is too old and response timeout expired or query ID is invalid"
DELETABLE_SECONDS = 48 * 3600
POPUP = 200
MANY = 100


def _own(call: Call) -> Post:
    if not call.arguments.text("chat_id") and not call.arguments.text("message_id"):
        raise bad_request("message identifier is not specified")
    post = call.message("message to edit")
    if post.sender.id != call.bot.id or post.body.is_service:
        raise bad_request("message can't be edited")
    return post


def _change(call: Call, post: Post, body: Body, markup: Markup | None) -> Answer:
    if body == post.body and markup == post.markup:
        raise bad_request(NOT_MODIFIED)
    call.spend(post.chat)
    post.edit(body, markup, call.world.now)
    call.world.changed()
    return post.record


def edit_message_text(call: Call) -> Answer:
    """Say something else instead; buttons that are not given again go away."""
    text = call.text()
    markup = inline(read_markup(call.arguments))
    post = _own(call)
    if post.body.media:
        raise bad_request("there is no text in the message to edit")
    return _change(call, post, Body(text), markup)


def edit_message_caption(call: Call) -> Answer:
    """Change the text that goes with a file."""
    caption = call.caption()
    markup = inline(read_markup(call.arguments))
    post = _own(call)
    if not post.body.media:
        raise bad_request("there is no caption in the message to edit")
    return _change(call, post, replace(post.body, text=caption), markup)


def edit_message_reply_markup(call: Call) -> Answer:
    """Change only the buttons."""
    markup = inline(read_markup(call.arguments))
    post = _own(call)
    return _change(call, post, post.body, markup)


def delete_message(call: Call) -> Answer:
    """Take a message away from everybody."""
    if not call.arguments.text("chat_id"):
        raise bad_request("chat identifier is not specified")
    if not call.arguments.integer("message_id"):
        raise bad_request("message identifier is not specified")
    _delete(call, call.message("message to delete"))
    return True


def delete_messages(call: Call) -> Answer:
    """Take several away; those that are not there are passed over."""
    listed = call.arguments.document("message_ids", "message_ids")
    if not isinstance(listed, list) or not listed:
        raise bad_request("message identifiers are not specified")
    if len(listed) > MANY:
        raise bad_request("too many message identifiers specified")
    if not all(isinstance(number, int) for number in listed):
        raise bad_request("message identifier must be a Number")
    chat = call.chat()
    for post in [chat.posts[number] for number in listed if number in chat.posts and not chat.posts[number].deleted]:
        _delete(call, post)
    return True


def _delete(call: Call, post: Post) -> None:
    own = post.sender.id == call.bot.id
    allowed = own or not post.chat.is_group or post.chat.manages(call.bot.id)
    if not allowed or (post.chat.kind != "supergroup" and call.world.now - post.date > DELETABLE_SECONDS):
        raise bad_request("message can't be deleted")
    post.deleted = call.world.now
    call.world.changed()


def set_message_reaction(call: Call) -> Answer:
    """React to a message, with one emoji or none."""
    post = call.message("message to react", write=False)
    listed = call.arguments.document("reaction", "reaction types") or []
    if not isinstance(listed, list):
        raise bad_request("expected an Array of ReactionType")
    for each in listed:
        if not isinstance(each, dict) or each.get("type") not in ("emoji", "custom_emoji"):
            raise bad_request("can't parse ReactionType: invalid reaction type specified")
    if len(listed) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    if any(each["type"] == "emoji" and each.get("emoji") not in REACTIONS for each in listed):
        raise bad_request("REACTION_INVALID")
    post.reactions[call.bot.id] = listed
    call.world.changed()
    return True


EMOJI = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 "
    "💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 "
    "😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡"
)
REACTIONS = EMOJI.split()


def answer_callback_query(call: Call) -> Answer:
    """End the wait of somebody who pressed a button."""
    query = call.bot.callbacks.pop(call.arguments.text("callback_query_id"), None)
    if query is None:
        raise bad_request(OLD_QUERY)
    text = call.arguments.text("text")
    if length(text) > POPUP:
        raise bad_request("MESSAGE_TOO_LONG")
    shown = {"query": query["id"], "user_id": query["from"]["id"], "text": text}
    call.world.popups.append(shown | {"alert": call.arguments.flag("show_alert")})
    call.world.changed()
    return True


METHODS: dict[str, Method] = {
    "editMessageText": edit_message_text,
    "editMessageCaption": edit_message_caption,
    "editMessageReplyMarkup": edit_message_reply_markup,
    "deleteMessage": delete_message,
    "deleteMessages": delete_messages,
    "setMessageReaction": set_message_reaction,
    "answerCallbackQuery": answer_callback_query,
}
