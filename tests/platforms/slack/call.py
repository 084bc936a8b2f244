"""One call of a method of the Web API by an app that may make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .arguments import Arguments
from .messages import Json, Message
from .refusals import Refused
from .rules import KIND_SCOPES
from .team import App, Conversation

if TYPE_CHECKING:
    from .platform import Platform

Method = Callable[["Call"], Json]


@dataclass(frozen=True, kw_only=True)
class Call:
    """The app, its arguments and the platform."""

    platform: Platform
    app: App
    arguments: Arguments

    def text(self, name: str) -> str:
        """Return an argument as text."""
        return self.arguments.text(name)

    def conversation(self, name: str = "channel") -> Conversation:
        """Return the conversation that an argument names, as far as the app can know of it."""
        found = self.platform.team.conversations.get(self.text(name))
        if found is None or (found.kind != "channel" and self.app.bot_user not in found.members):
            raise Refused("channel_not_found")
        return found

    def readable(self, suffix: str, name: str = "channel") -> Conversation:
        """Return a conversation of whose kind the app may know what the scope's `suffix` says."""
        found = self.conversation(name)
        self.need_scope(f"{KIND_SCOPES[found.kind]}:{suffix}")
        return found

    def joined(self, conversation: Conversation) -> Conversation:
        """Refuse where the bot is no member."""
        if self.app.bot_user not in conversation.members:
            raise Refused("not_in_channel")
        return conversation

    def need_scope(self, scope: str) -> None:
        """Refuse without this scope."""
        if scope not in self.app.scopes:
            raise missing_scope(scope, self.app.scopes)

    def message(self, conversation: Conversation, ts: str, *, refusal: str = "message_not_found") -> Message:
        """Return a message that is still there for everybody."""
        found = conversation.messages.get(ts)
        if found is None or found.deleted or found.ephemeral_to is not None:
            raise Refused(refusal)
        return found


def missing_scope(needed: str, provided: set[str]) -> Refused:
    """Return the refusal that names the scope."""
    return Refused("missing_scope", needed=needed, provided=",".join(sorted(provided)))
