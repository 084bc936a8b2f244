"""chat.*: posting, editing and deleting."""

from __future__ import annotations

import re
from typing import Any

from .call import Call, Method
from .content import read_content
from .messages import Json, Message
from .refusals import Refused
from .rules import UPDATE_TEXT_MOST
from .team import Conversation

_TS = re.compile(r"\d{10}\.\d{6}")


def post_message(call: Call) -> Json:
    """Post; a `client_msg_id` that was used answers the message it made, so that a repeat makes no second one.

    Source: the errors `duplicate_channel_not_found` and `duplicate_message_not_found` in the method's reference, which
    does not list the argument itself. Where an app must not rely on it, metadata and history find a message again.
    """
    conversation = _target(call)
    content = read_content(call.arguments)
    thread = thread_of(call, conversation)
    if (known := _known(call, conversation)) is not None:
        return _posted(known)
    message = call.platform.board.post_as(
        call.app,
        conversation,
        content.text,
        thread_ts=thread,
        broadcast=thread is not None and call.arguments.flag("reply_broadcast"),
        client_msg_id=call.text("client_msg_id") or None,
        username=_username(call),
        **content.parts(),
    )
    return _posted(message)


def _posted(message: Message) -> Json:
    return {"channel": message.channel, "ts": message.ts, "message": message.payload()}


def _target(call: Call) -> Conversation:
    """Return where to post: a conversation, `#name` or a user, whose DM is opened."""
    name, team = call.text("channel"), call.platform.team
    if name in team.people:
        conversation, _ = team.direct((call.app.bot_user, name), now=call.platform.clock.now())
        return conversation
    by_name = {each.name: each.id for each in team.conversations.values() if each.name}
    found = team.conversations.get(by_name.get(name.removeprefix("#"), name))
    if found is None or (found.kind != "channel" and call.app.bot_user not in found.members):
        raise Refused("channel_not_found")
    if found.archived:
        raise Refused("is_archived")
    return found if "chat:write.public" in call.app.scopes else call.joined(found)


def _username(call: Call) -> str | None:
    name = call.text("username")
    if name:
        call.need_scope("chat:write.customize")
    return name or None


def _known(call: Call, conversation: Conversation) -> Message | None:
    key = call.text("client_msg_id")
    everything = (each for place in call.platform.team.conversations.values() for each in place.messages.values())
    known = next((each for each in everything if each.client_msg_id == key), None) if key else None
    if known is None:
        return None
    if known.channel != conversation.id:
        raise Refused("duplicate_channel_not_found")
    if known.deleted or known.app_id != call.app.id:
        raise Refused("duplicate_message_not_found")
    return known


def thread_of(call: Call, conversation: Conversation) -> str | None:
    """Return the thread that `thread_ts` names.

    A reply's ts is refused: what Slack makes of it is not what anybody wants, and says its reference not to do so.
    """
    ts = call.text("thread_ts")
    if not ts:
        return None
    if not _TS.fullmatch(ts):
        raise Refused("invalid_thread_ts")
    root = call.message(conversation, ts, refusal="thread_not_found")
    if root.is_reply:
        raise Refused("cannot_reply_to_message")
    return ts


def post_ephemeral(call: Call) -> Json:
    """Post for one person's eyes."""
    conversation = _target(call)
    content = read_content(call.arguments)
    if call.text("user") not in conversation.members:
        raise Refused("user_not_in_channel")
    thread = thread_of(call, conversation)
    facts: dict[str, Any] = content.parts() | {"ephemeral_to": call.text("user"), "thread_ts": thread}
    return {"message_ts": call.platform.board.post_as(call.app, conversation, content.text, **facts).ts}


def update(call: Call) -> Json:
    """Edit a message of one's own."""
    conversation = call.conversation()
    message = call.message(conversation, call.text("ts"))
    if message.app_id != call.app.id:
        raise Refused("cant_update_message")
    if message.streaming == "in_progress":
        raise Refused("streaming_state_conflict")
    content = read_content(call.arguments, text_most=UPDATE_TEXT_MOST)
    call.platform.board.edit(message, by=call.app.bot_user, **content.changes())
    told = message.payload()
    return {"channel": conversation.id, "ts": message.ts, "text": message.text, "message": told}


def delete(call: Call) -> Json:
    """Delete a message of one's own."""
    conversation = call.conversation()
    message = call.message(conversation, call.text("ts"))
    if message.app_id != call.app.id:
        raise Refused("cant_delete_message")
    call.platform.board.delete(message)
    return {"channel": conversation.id, "ts": message.ts}


def permalink(call: Call) -> Json:
    """Tell where people find a message."""
    conversation = call.conversation()
    message = call.message(conversation, call.text("message_ts"))
    link = f"https://{call.platform.team.domain}.slack.com/archives/{conversation.id}/p{message.ts.replace('.', '')}"
    if message.is_reply:
        link += f"?thread_ts={message.thread_ts}&cid={conversation.id}"
    return {"channel": conversation.id, "permalink": link}


CHAT: dict[str, Method] = {
    "chat.delete": delete,
    "chat.getPermalink": permalink,
    "chat.postEphemeral": post_ephemeral,
    "chat.postMessage": post_message,
    "chat.update": update,
}
