"""Updates as the Bot API writes them, as far as they are read here: unknown fields are passed over.

Source: https://core.telegram.org/bots/api#update
"""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType, field

KINDS = ("message", "edited_message", "callback_query")
"""What is asked for: `allowed_updates`."""


class Person(Struct, frozen=True):
    """Who writes: a person, or a bot."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    username: str = ""


class Chat(Struct, frozen=True):
    """Where something is said; `type` is `private`, `group`, `supergroup` or `channel`."""

    id: int
    type: str = "private"


class Entity(Struct, frozen=True):
    """A part of a text that means something; counted in UTF-16 code units."""

    type: str
    offset: int
    length: int
    user: Person | None = None


class Quote(Struct, frozen=True):
    """The part of a message that a reply is about."""

    text: str


class File(Struct, frozen=True):
    """Any file."""

    file_id: str
    file_unique_id: str
    file_size: int = 0
    file_name: str = ""
    mime_type: str = ""
    duration: int = 0
    emoji: str = ""


class Place(Struct, frozen=True):
    """A place on earth, in degrees."""

    latitude: float
    longitude: float


class Contact(Struct, frozen=True):
    """Somebody's telephone number."""

    phone_number: str
    first_name: str = ""
    last_name: str = ""


class Message(Struct, frozen=True):
    """A message; `date` is 0 for one that is not accessible any more."""

    message_id: int
    chat: Chat
    date: int = 0
    edit_date: int = 0
    sender: Person | None = field(name="from", default=None)
    sender_chat: Chat | None = None
    message_thread_id: int = 0
    is_topic_message: bool = False
    text: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()
    caption_entities: tuple[Entity, ...] = ()
    reply_to_message: Message | None = None
    quote: Quote | None = None
    media_group_id: str = ""
    photo: tuple[File, ...] = ()
    document: File | None = None
    animation: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    voice: File | None = None
    sticker: File | None = None
    location: Place | None = None
    contact: Contact | None = None
    forum_topic_created: Raw | UnsetType = UNSET
    migrate_to_chat_id: int = 0
    migrate_from_chat_id: int = 0

    @property
    def words(self) -> str:
        """The text, or the caption of a file."""
        return self.text or self.caption

    @property
    def marks(self) -> tuple[Entity, ...]:
        """What of `words` means something."""
        return self.entities if self.text else self.caption_entities

    @property
    def thread(self) -> int:
        """The topic of a forum, 0 outside of one: replies in other groups have a thread's number too."""
        return self.message_thread_id if self.is_topic_message else 0


class Callback(Struct, frozen=True):
    """A button that was pressed."""

    id: str
    sender: Person = field(name="from")
    message: Message | None = None
    data: str = ""


class Update(Struct, frozen=True):
    """One update; none of its kinds for one that nobody here reads."""

    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: Callback | None = None


class Numbered(Struct, frozen=True):
    """The number of an update whose rest cannot be read."""

    update_id: int


class Sent(Struct, frozen=True):
    """What was sent."""

    message_id: int


class Stored(Struct, frozen=True):
    """Where a file can be fetched."""

    file_path: str = ""
    file_size: int = 0


def cut(text: str, offset: int, length: int) -> str:
    """Return a part of a text that is counted in UTF-16 code units."""
    return text.encode("utf-16-le", "surrogatepass")[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")
