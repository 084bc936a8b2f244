"""People, bots' accounts, chats and topics, in the platform's own shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .refusals import Refused, bad_request, forbidden, migrated

if TYPE_CHECKING:
    from .posts import Post

Kind = Literal["private", "group", "supergroup"]
Status = Literal["creator", "administrator", "member", "left", "kicked"]
PRESENT = ("creator", "administrator", "member")
GENERAL = 1
"""The topic that every forum has; its messages carry no `message_thread_id`."""


@dataclass
class User:
    """A person or a bot's account."""

    id: int
    first_name: str
    username: str = ""
    is_bot: bool = False
    language_code: str = ""

    @property
    def record(self) -> dict[str, Any]:
        """As it stands in messages."""
        named = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        named |= {"username": self.username} if self.username else {}
        return named | ({"language_code": self.language_code} if self.language_code else {})


@dataclass
class Topic:
    """A thread of a forum; `deleted` ones are known no more."""

    id: int
    name: str
    icon_color: int = 7322096
    closed: bool = False

    @property
    def record(self) -> dict[str, Any]:
        """As createForumTopic returns it."""
        return {"message_thread_id": self.id, "name": self.name, "icon_color": self.icon_color}


@dataclass
class Chat:
    """A chat: a group, or what one person and one bot say to each other."""

    id: int
    kind: Kind
    title: str = ""
    user: User | None = None
    """The person of a private chat."""
    is_forum: bool = False
    members: dict[int, Status] = field(default_factory=dict)
    people: dict[int, User] = field(default_factory=dict)
    topics: dict[int, Topic] = field(default_factory=dict)
    posts: dict[int, Post] = field(default_factory=dict)
    migrated_to: int = 0
    started: bool = True
    """Whether the person of a private chat has ever spoken to the bot."""
    blocked: bool = False
    drafts: dict[tuple[int, int], str] = field(default_factory=dict)
    """What a bot streams, by thread and draft id."""
    actions: list[tuple[int, str]] = field(default_factory=list)
    """What the bot was seen doing, by thread."""

    @property
    def record(self) -> dict[str, Any]:
        """As it stands in messages."""
        if self.user is not None:
            person = {"id": self.id, "first_name": self.user.first_name, "type": "private"}
            return person | ({"username": self.user.username} if self.user.username else {})
        return {"id": self.id, "title": self.title, "type": self.kind} | ({"is_forum": True} if self.is_forum else {})

    @property
    def is_group(self) -> bool:
        """Whether more than two can be in it."""
        return self.kind != "private"

    def next_id(self) -> int:
        """Return the number of the next message."""
        return len(self.posts) + (GENERAL if self.is_forum else 0) + 1

    def admit(self, user: User, status: Status = "member") -> None:
        """Let somebody in, or put them out."""
        self.members[user.id] = status
        self.people[user.id] = user

    def status(self, user_id: int) -> Status:
        """Return how somebody stands."""
        if not self.is_group:
            return "member"
        return self.members.get(user_id, "left")

    def check(self, bot_id: int, *, write: bool) -> None:
        """Refuse a bot that may not read or write here, with the reasons the platform gives."""
        if self.migrated_to and write:
            raise migrated(self.migrated_to)
        if not self.is_group and write and self.blocked:
            raise forbidden("bot was blocked by the user")
        if not self.is_group and write and not self.started:
            raise forbidden("bot can't initiate conversation with a user")
        status = self.status(bot_id)
        name = "supergroup" if self.kind == "supergroup" else "group"
        if (write or self.kind == "supergroup") and status == "kicked":
            raise forbidden(f"bot was kicked from the {name} chat")
        if (write or self.kind == "supergroup") and status == "left":
            raise forbidden(f"bot is not a member of the {name} chat")

    def thread(self, thread_id: int) -> int:
        """Return the topic that a message goes to, 0 for none; groups without topics ignore the number."""
        if not thread_id or (self.is_group and not self.is_forum):
            return 0
        if thread_id == GENERAL or thread_id not in self.topics:
            raise bad_request("message thread not found")
        if self.topics[thread_id].closed:
            raise bad_request("TOPIC_CLOSED")
        return thread_id

    def manages(self, bot_id: int) -> bool:
        """Return whether a bot may do what an administrator may."""
        return self.status(bot_id) in ("creator", "administrator")


def member_record(user: User, status: Status) -> dict[str, Any]:
    """Return a ChatMember."""
    said: dict[str, Any] = {"user": user.record, "status": status}
    if status == "creator":
        said["is_anonymous"] = False
    elif status == "administrator":
        said |= dict.fromkeys(RIGHTS, True) | {"can_be_edited": False, "is_anonymous": False}
    elif status == "kicked":
        said["until_date"] = 0
    return said


RIGHT_NAMES = (
    "can_manage_chat can_delete_messages can_manage_video_chats can_restrict_members can_promote_members "
    "can_change_info can_invite_users can_pin_messages can_manage_topics can_post_stories can_edit_stories "
    "can_delete_stories can_send_welcome_messages"
)
RIGHTS = RIGHT_NAMES.split()


def not_found() -> Refused:
    """Make the refusal of a chat that a bot does not know."""
    return bad_request("chat not found")
