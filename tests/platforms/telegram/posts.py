"""Messages: what the API says of them, and what a person sees of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .chats import Chat, User
from .keyboards import Markup
from .texts import NOTHING, Formatted
from .units import length

SERVICE = ("forum_topic_created", "migrate_to_chat_id", "migrate_from_chat_id", "new_chat_members", "left_chat_member")


@dataclass(frozen=True)
class Body:
    """What a message holds: a text, a file with a caption, or a notice of the platform (`media` is its field)."""

    text: Formatted = NOTHING
    media: str = ""
    attached: Any = None

    @property
    def record(self) -> dict[str, Any]:
        """Its fields of a Message."""
        if not self.media:
            return _texts("text", "entities", self.text)
        return {self.media: self.attached} | _texts("caption", "caption_entities", self.text)

    @property
    def is_service(self) -> bool:
        """Whether nobody said it."""
        return self.media in SERVICE or self.media.startswith("forum_topic")


def _texts(name: str, entities: str, text: Formatted) -> dict[str, Any]:
    said: dict[str, Any] = {name: text.text} if text.text else {}
    return said | ({entities: list(text.entities)} if text.entities else {})


@dataclass
class Post:
    """A message of a chat, with what it was before."""

    id: int
    chat: Chat
    sender: User
    date: int
    body: Body
    thread: int = 0
    reply_to: int = 0
    quote: str = ""
    markup: Markup | None = None
    album: str = ""
    edited: int = 0
    deleted: int = 0
    earlier: list[Body] = field(default_factory=list)
    reactions: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The Message, as a bot gets it."""
        said = self._bare
        if (replied := self.chat.posts.get(self._replied)) and not replied.deleted:
            said["reply_to_message"] = replied._bare
        if self.quote:
            said["quote"] = {"text": self.quote, "position": self._position, "is_manual": True}
        return said

    @property
    def _replied(self) -> int:
        """What it counts as a reply to: in a topic without another, to the topic's first message."""
        return self.reply_to or (self.thread if self.thread != self.id else 0)

    @property
    def _bare(self) -> dict[str, Any]:
        said = {"message_id": self.id, "from": self.sender.record, "chat": self.chat.record, "date": self.date}
        if self.edited:
            said["edit_date"] = self.edited
        if self.thread:
            said |= {"message_thread_id": self.thread, "is_topic_message": True}
        elif self.reply_to and self.chat.kind == "supergroup":
            said["message_thread_id"] = self._root
        if self.album:
            said["media_group_id"] = self.album
        said |= self.body.record
        return said | ({"reply_markup": self.markup} if self.markup else {})

    @property
    def _position(self) -> int:
        return length(self.chat.posts[self.reply_to].body.text.text.partition(self.quote)[0])

    @property
    def _root(self) -> int:
        """The first message of a chain of replies: outside of topics that is the thread's number."""
        first = self
        while first.reply_to in self.chat.posts:
            first = self.chat.posts[first.reply_to]
        return first.id

    @property
    def seen(self) -> dict[str, Any]:
        """What a person sees of it, and what it was before edits or its deletion."""
        return {
            "message_id": self.id,
            "from": self.sender.first_name,
            "from_id": self.sender.id,
            "is_bot": self.sender.is_bot,
            "date": self.date,
            "text": self.body.text.text,
            "entities": list(self.body.text.entities),
            "media": self.body.media,
            "service": self.body.is_service,
            "file": _file(self.body),
            "thread": self.thread,
            "reply_to": self.reply_to,
            "quote": self.quote,
            "buttons": _buttons(self.markup),
            "album": self.album,
            "earlier": [each.text.text for each in self.earlier],
            "edited": bool(self.edited),
            "deleted": bool(self.deleted),
            "reactions": self.reactions,
        }

    def edit(self, body: Body, markup: Markup | None, now: int) -> None:
        """Change it, keeping what it was."""
        self.earlier.append(self.body)
        self.body, self.markup, self.edited = body, markup, now


def _file(body: Body) -> dict[str, Any] | None:
    if not body.media or body.is_service:
        return None
    return dict(body.attached[-1] if isinstance(body.attached, list) else body.attached)


def _buttons(markup: Markup | None) -> list[list[dict[str, Any]]]:
    return list(markup["inline_keyboard"]) if markup and "inline_keyboard" in markup else []
