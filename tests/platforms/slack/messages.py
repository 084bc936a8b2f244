"""A message as Slack keeps it, and everything that happened to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_TOLD = (
    *("subtype", "bot_id", "app_id", "bot_profile", "username", "thread_ts", "blocks", "attachments", "files"),
    *("edited", "client_msg_id"),
)


@dataclass(kw_only=True)
class Message:
    """One message; `versions` are the texts that it had before, `streaming` is None, in_progress or completed."""

    channel: str
    ts: str
    user: str
    text: str
    team: str
    bot_id: str | None = None
    app_id: str | None = None
    bot_profile: Json | None = None
    username: str | None = None
    subtype: str | None = None
    thread_ts: str | None = None
    parent_user: str | None = None
    broadcast: bool = False
    blocks: list[Any] = field(default_factory=list)
    attachments: list[Any] = field(default_factory=list)
    files: list[Json] = field(default_factory=list)
    metadata: Json | None = None
    client_msg_id: str | None = None
    edited: Json | None = None
    reactions: dict[str, list[str]] = field(default_factory=dict)
    ephemeral_to: str | None = None
    streaming: str | None = None
    stopped_by_user: bool = False
    chunks: list[Any] = field(default_factory=list)
    deleted: bool = False
    versions: list[str] = field(default_factory=list)

    @property
    def root(self) -> str:
        """The ts of its thread, its own if it is in none."""
        return self.thread_ts or self.ts

    @property
    def is_reply(self) -> bool:
        """Whether it stands in another message's thread."""
        return self.thread_ts is not None and self.thread_ts != self.ts

    @property
    def in_channel(self) -> bool:
        """Whether it stands in the channel itself."""
        return not self.is_reply or self.broadcast

    def payload(self, *, with_metadata: bool = True) -> Json:
        """Return the message as the Web API and events show it."""
        told: Json = {"type": "message", "ts": self.ts, "text": self.text, "team": self.team}
        if self.subtype != "bot_message":
            told["user"] = self.user
        if self.is_reply:
            told["parent_user_id"] = self.parent_user
        if self.metadata is not None and with_metadata:
            told["metadata"] = self.metadata
        if self.reactions:
            told["reactions"] = [
                {"name": name, "users": who, "count": len(who)} for name, who in self.reactions.items()
            ]
        for name in _TOLD:
            if value := getattr(self, name):
                told[name] = value
        if self.streaming:
            told["streaming_state"] = self.streaming
        return told
