"""What happens to messages, whoever does it: each change is made at once and told to the apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .messages import Json, Message
from .team import App, Conversation, StoredFile

if TYPE_CHECKING:
    from .platform import Platform

TOMBSTONE = "tombstone"


class Board:
    """Changes the conversations of the team."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def new_ts(self) -> str:
        """Return the next ts."""
        return self._platform.team.new_ts(self._platform.clock.now())

    def post(self, conversation: Conversation, user: str, text: str, **facts: Any) -> Message:
        """Post a message, for its readers or for one person alone."""
        team = self._platform.team
        message = Message(channel=conversation.id, ts=self.new_ts(), user=user, text=text, team=team.id, **facts)
        if message.is_reply:
            self._reply(conversation, message)
        conversation.messages[message.ts] = message
        if message.ephemeral_to is None:
            self._platform.events.message(message, conversation)
        self._platform.ledger.count("messages")
        return message

    def _reply(self, conversation: Conversation, message: Message) -> None:
        root = conversation.messages[message.root]
        root.thread_ts = root.ts
        message.parent_user = root.user
        if message.broadcast and message.subtype is None:
            message.subtype = "thread_broadcast"

    def post_as(self, app: App, conversation: Conversation, text: str, **facts: Any) -> Message:
        """Post in the name of an app; under another name it is a `bot_message`."""
        profile = self._platform.team.profile(app)
        if facts.get("username"):
            facts["subtype"] = "bot_message"
        self._platform.assistants.answered(conversation.id, facts.get("thread_ts"))
        identity = {"bot_id": app.bot_id, "app_id": app.id, "bot_profile": profile}
        return self.post(conversation, app.bot_user, text, **identity, **facts)

    def edit(self, message: Message, *, by: str, told: bool = True, **changes: Any) -> None:
        """Change a message; `by` is noted as its editor."""
        previous = message.payload()
        message.versions.append(message.text)
        for name, value in changes.items():
            setattr(message, name, value)
        ts = self.new_ts()
        if message.streaming is None:
            message.edited = {"user": by, "ts": ts}
        if told and message.ephemeral_to is None:
            self._platform.events.changed(message, previous, self._place(message), ts=ts)
        self._platform.ledger.count("edits")

    def delete(self, message: Message) -> None:
        """Delete a message; where replies hang on it, a tombstone stays."""
        conversation, previous = self._place(message), message.payload()
        if conversation.replies(message.ts):
            message.versions.append(message.text)
            message.text, message.subtype, message.user = "This message was deleted.", TOMBSTONE, "USLACKBOT"
            message.blocks, message.attachments, message.files = [], [], []
            self._platform.events.changed(message, previous, conversation, ts=self.new_ts())
        else:
            message.deleted = True
            if message.ephemeral_to is None:
                self._platform.events.deleted(previous, conversation, ts=self.new_ts())
        self._platform.ledger.count("deletions")

    def react(self, message: Message, user: str, name: str) -> None:
        """Add a reaction."""
        message.reactions.setdefault(name, []).append(user)
        self._platform.events.reacted(message, user, name, self._place(message), ts=self.new_ts())
        self._platform.ledger.changed()

    def unreact(self, message: Message, user: str, name: str) -> None:
        """Take a reaction back."""
        message.reactions[name].remove(user)
        if not message.reactions[name]:
            del message.reactions[name]
        self._platform.ledger.changed()

    def join(self, conversation: Conversation, user: str, *, inviter: str | None = None) -> None:
        """Let somebody in."""
        if user not in conversation.members:
            conversation.members.append(user)
            self._platform.events.joined(conversation, user, inviter=inviter, ts=self.new_ts())
            self._platform.ledger.changed()

    def file_payload(self, file: StoredFile) -> Json:
        """Return a file as messages and `files.info` show it."""
        team, base = self._platform.team, self._platform.url
        address = f"{base}/files-pri/{team.id}-{file.id}"
        return {
            "id": file.id,
            "created": file.created,
            "timestamp": file.created,
            "name": file.name,
            "title": file.title,
            "mimetype": file.mimetype,
            "filetype": file.name.rpartition(".")[2] if "." in file.name else "binary",
            "user": file.user,
            "user_team": team.id,
            "size": file.size,
            "mode": "hosted",
            "is_external": False,
            "is_public": False,
            "url_private": f"{address}/{quote(file.name)}",
            "url_private_download": f"{address}/download/{quote(file.name)}",
            "permalink": f"{base}/files/{file.user}/{file.id}/{quote(file.name)}",
            "channels": list(file.channels),
            "file_access": "visible",
        }

    def _place(self, message: Message) -> Conversation:
        return self._platform.team.conversations[message.channel]
