"""Methods about chats: what they are, who is in them, their topics."""

from __future__ import annotations

from typing import Any

from .calls import Answer, Call, Method
from .chats import PRESENT, Chat, Status, Topic, User, member_record
from .posts import Body
from .refusals import bad_request
from .units import length
from .world import World

GIFTS = dict.fromkeys(
    ["unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"], False
)
PERMISSION_NAMES = (
    "can_send_messages can_send_audios can_send_documents can_send_photos can_send_videos can_send_video_notes "
    "can_send_voice_notes can_send_polls can_send_other_messages can_add_web_page_previews can_edit_tag "
    "can_react_to_messages can_change_info can_invite_users can_pin_messages can_manage_topics"
)
PERMISSIONS = dict.fromkeys(
    PERMISSION_NAMES.split(),
    True,
)
COLORS = (7322096, 16766590, 13338331, 9367192, 16749490, 16478047)


def get_chat(call: Call) -> Answer:
    """Say everything about a chat."""
    chat = call.chat(write=False)
    full: dict[str, Any] = {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": GIFTS}
    return chat.record | full | ({"permissions": PERMISSIONS} if chat.is_group else {})


def get_chat_member(call: Call) -> Answer:
    """Say how somebody stands in a chat."""
    chat, user_id = call.chat(write=False), call.arguments.integer("user_id")
    if user_id <= 0:
        raise bad_request("invalid user_id specified")
    if not chat.is_group and user_id not in (chat.id, call.bot.id):
        raise bad_request("PARTICIPANT_ID_INVALID")
    user = call.bot.account if user_id == call.bot.id else call.world.users.get(user_id)
    if user is None:
        raise bad_request("PARTICIPANT_ID_INVALID")
    return member_record(user, chat.status(user_id))


def get_chat_administrators(call: Call) -> Answer:
    """List who may do more than others."""
    chat = call.chat(write=False)
    if not chat.is_group:
        raise bad_request("there are no administrators in the private chat")
    leading = [number for number, status in chat.members.items() if status in ("creator", "administrator")]
    return [member_record(chat.people[number], chat.members[number]) for number in leading]


def get_chat_member_count(call: Call) -> Answer:
    """Count who is in a chat."""
    chat = call.chat(write=False)
    return sum(status in PRESENT for status in chat.members.values()) if chat.is_group else 2


def leave_chat(call: Call) -> Answer:
    """Go."""
    chat = call.chat(write=False)
    if not chat.is_group:
        raise bad_request("chat member status can't be changed in private chats")
    stand(call.world, chat, call.bot.account, "left", by=call.bot.account)
    return True


def stand(world: World, chat: Chat, user: User, status: Status, *, by: User) -> None:
    """Change how a bot or a person stands in a chat, and tell the bots that hear of it."""
    before = chat.status(user.id) if chat.is_group else ("kicked" if chat.blocked else "member")
    listening = world.listeners(chat)
    if chat.is_group:
        chat.admit(user, status)
    else:
        chat.blocked = status == "kicked"
    change: dict[str, Any] = {"chat": chat.record, "from": by.record, "date": world.now}
    change |= {"old_chat_member": member_record(user, before), "new_chat_member": member_record(user, status)}
    for bot in {bot.id: bot for bot in [*listening, *world.listeners(chat)]}.values():
        bot.updates.add("my_chat_member" if user.id == bot.id else "chat_member", change)
    if chat.is_group and (before in PRESENT) != (status in PRESENT):
        came = Body(media="new_chat_members", attached=[user.record])
        left = Body(media="left_chat_member", attached=user.record)
        world.tell(world.post(chat, by, came if status in PRESENT else left))
    world.changed()


def create_forum_topic(call: Call) -> Answer:
    """Begin a topic."""
    chat, name = call.chat(), call.arguments.text("name").strip()
    if not chat.is_forum:
        raise bad_request("the chat is not a forum")
    if not chat.manages(call.bot.id):
        raise bad_request("not enough rights to create a topic")
    if not name:
        raise bad_request("name must be non-empty")
    if length(name) > call.world.rules.topic_name:
        raise bad_request("TOPIC_TITLE_TOO_LONG")
    color = call.arguments.integer("icon_color", COLORS[0])
    if color not in COLORS:
        raise bad_request("invalid icon color specified")
    return open_topic(call.world, chat, name, call.bot.account, color).record


def open_topic(world: World, chat: Chat, name: str, by: User, color: int = COLORS[0]) -> Topic:
    """Add a topic; its number is that of the notice about it."""
    number = chat.next_id()
    topic = chat.topics[number] = Topic(number, name, color)
    notice = world.post(
        chat, by, Body(media="forum_topic_created", attached={"name": name, "icon_color": color}), thread=number
    )
    world.tell(notice)
    return topic


def _topic(call: Call, does: str) -> tuple[Chat, Topic]:
    chat = call.chat()
    if not chat.is_forum:
        raise bad_request("the chat is not a forum")
    if not chat.manages(call.bot.id):
        raise bad_request(f"not enough rights to {does} the topic")
    topic = chat.topics.get(call.arguments.integer("message_thread_id"))
    if topic is None:
        raise bad_request("TOPIC_ID_INVALID")
    return chat, topic


def edit_forum_topic(call: Call) -> Answer:
    """Name a topic anew."""
    _, topic = _topic(call, "edit")
    name = call.arguments.text("name").strip() or topic.name
    if name == topic.name:
        raise bad_request("TOPIC_NOT_MODIFIED")
    topic.name = name
    call.world.changed()
    return True


def close_forum_topic(call: Call) -> Answer:
    """Let nobody write in a topic."""
    return close_topic(call.world, _topic(call, "close or open")[1], closed=True)


def reopen_forum_topic(call: Call) -> Answer:
    """Let people write in it again."""
    return close_topic(call.world, _topic(call, "close or open")[1], closed=False)


def close_topic(world: World, topic: Topic, *, closed: bool) -> bool:
    """Close a topic, or open it."""
    if topic.closed == closed:
        raise bad_request("TOPIC_NOT_MODIFIED")
    topic.closed = closed
    world.changed()
    return True


def delete_forum_topic(call: Call) -> Answer:
    """Take a topic and its messages away."""
    chat, topic = _topic(call, "delete")
    delete_topic(call.world, chat, topic.id)
    return True


def delete_topic(world: World, chat: Chat, topic_id: int) -> None:
    """Take a topic and its messages away."""
    del chat.topics[topic_id]
    for post in chat.posts.values():
        if post.thread == topic_id and not post.deleted:
            post.deleted = world.now
    world.changed()


METHODS: dict[str, Method] = {
    "getChat": get_chat,
    "getChatMember": get_chat_member,
    "getChatAdministrators": get_chat_administrators,
    "getChatMemberCount": get_chat_member_count,
    "leaveChat": leave_chat,
    "createForumTopic": create_forum_topic,
    "editForumTopic": edit_forum_topic,
    "closeForumTopic": close_forum_topic,
    "reopenForumTopic": reopen_forum_topic,
    "deleteForumTopic": delete_forum_topic,
}
