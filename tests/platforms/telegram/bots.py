"""A bot: its token, its queue, its private chats, and what it hears in groups."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

from .chats import Chat, User
from .files import Files
from .posts import Post
from .rules import Flood
from .units import cut
from .updates import DEFAULT, Updates

FIRST_UPDATE = 847_000_001
Commands = list[dict[str, str]]


@dataclass
class Webhook:
    """Where a bot's updates are pushed to, and how the last failed."""

    url: str = ""
    secret: str = ""
    max_connections: int = 40
    error_date: int = 0
    error: str = ""


@dataclass
class Bot:
    """A bot's account and everything that is its own."""

    account: User
    token: str
    privacy: bool = True
    updates: Updates = field(default_factory=lambda: Updates(itertools.count(FIRST_UPDATE)))
    webhook: Webhook = field(default_factory=Webhook)
    chats: dict[int, Chat] = field(default_factory=dict)
    """Its private chats, by the person."""
    commands: dict[tuple[str, str], Commands] = field(default_factory=dict)
    """By scope, as JSON, and language."""
    callbacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The pressed buttons that wait for an answer."""
    flood: Flood = field(default_factory=Flood)
    revoked: bool = False
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the wait of a webhook that failed."""
    logged_out_until: float = 0.0

    def __post_init__(self) -> None:
        self.files = Files(self.id)

    @property
    def id(self) -> int:
        """Its user's number."""
        return self.account.id

    @property
    def record(self) -> dict[str, Any]:
        """As getMe tells it."""
        return self.account.record | {
            "can_join_groups": True,
            "can_read_all_group_messages": not self.privacy,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }

    @property
    def webhook_record(self) -> dict[str, Any]:
        """As getWebhookInfo tells it."""
        hook = self.webhook
        said: dict[str, Any] = {"url": hook.url, "has_custom_certificate": False}
        said["pending_update_count"] = len(self.updates.pending) + len(self.updates.again)
        if hook.error_date:
            said |= {"last_error_date": hook.error_date, "last_error_message": hook.error}
        if hook.url:
            said |= {"max_connections": hook.max_connections, "ip_address": "127.0.0.1"}
        if self.updates.allowed != DEFAULT:
            said["allowed_updates"] = sorted(self.updates.allowed)
        return said

    def hears(self, post: Post) -> bool:
        """Return whether a message reaches it: with privacy, of a group only what is meant for it."""
        chat = post.chat
        if not chat.is_group or not self.privacy or post.body.is_service or chat.manages(self.id):
            return True
        replied = chat.posts.get(post.reply_to)
        return (replied is not None and replied.sender.id == self.id) or any(
            self._meant(post.body.text.text, entity) for entity in post.body.text.entities
        )

    def _meant(self, text: str, entity: dict[str, Any]) -> bool:
        said = cut(text, entity["offset"], entity["length"]).lower()
        name = f"@{self.account.username.lower()}"
        if entity["type"] == "bot_command":
            return "@" not in said or said.endswith(name)
        mentioned = entity.get("user")
        return said == name or (isinstance(mentioned, dict) and mentioned.get("id") == self.id)
