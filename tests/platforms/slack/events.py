"""Who is told of what: events in the wrapper of the Events API, to each app that subscribed, may and can see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .markup import mentions
from .messages import Json, Message
from .rules import EVENT_SCOPES, KIND_SCOPES
from .team import App, Conversation

if TYPE_CHECKING:
    from .platform import Platform


class Events:
    """Makes events and hands them to the deliveries."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._team = platform.team

    def message(self, message: Message, conversation: Conversation) -> None:
        """Tell of a new message, and tell an app of its mention in addition."""
        event = self._described(message, conversation)
        self.emit(f"message.{KIND_SCOPES[conversation.kind]}", event, conversation)
        if conversation.kind == "im":
            return
        for app in self._team.apps.values():
            if app.bot_user in mentions(message.text) and app.bot_user != message.user:
                mention = {name: value for name, value in event.items() if name not in ("channel_type", "subtype")}
                self.emit("app_mention", {**mention, "type": "app_mention"}, conversation, only=app)

    def changed(self, message: Message, previous: Json, conversation: Conversation, *, ts: str) -> None:
        """Tell of an edit."""
        self._hidden("message_changed", conversation, ts, message=message.payload(), previous_message=previous)

    def deleted(self, previous: Json, conversation: Conversation, *, ts: str) -> None:
        """Tell that a message is gone."""
        self._hidden("message_deleted", conversation, ts, deleted_ts=previous["ts"], previous_message=previous)

    def joined(self, conversation: Conversation, user: str, *, inviter: str | None, ts: str) -> None:
        """Tell that somebody joined."""
        event = {
            "type": "member_joined_channel",
            "user": user,
            "channel": conversation.id,
            "channel_type": "C" if conversation.kind == "channel" else "G",
            "team": self._team.id,
            "event_ts": ts,
        }
        self.emit("member_joined_channel", event | ({"inviter": inviter} if inviter else {}), conversation)

    def reacted(self, message: Message, user: str, name: str, conversation: Conversation, *, ts: str) -> None:
        """Tell of a reaction."""
        event = {
            "type": "reaction_added",
            "user": user,
            "reaction": name,
            "item": {"type": "message", "channel": message.channel, "ts": message.ts},
            "item_user": message.user,
            "event_ts": ts,
        }
        self.emit("reaction_added", event, conversation)

    def home_opened(self, app: App, user: str, channel: str, *, tab: str, ts: str) -> None:
        """Tell that somebody looks at the app's home or its messages."""
        event = {"type": "app_home_opened", "user": user, "channel": channel, "tab": tab, "event_ts": ts}
        self.emit("app_home_opened", event, None, only=app)

    def revoked(self, app: App, *, ts: str) -> None:
        """Tell that the bot's token is worth nothing any more."""
        tokens = {"oauth": [], "bot": [app.bot_user]}
        self.emit("tokens_revoked", {"type": "tokens_revoked", "tokens": tokens, "event_ts": ts}, None, only=app)

    def emit(self, name: str, event: Json, conversation: Conversation | None, *, only: App | None = None) -> None:
        """Send an event to the apps that it concerns, or to `only` one."""
        for app in self._team.apps.values():
            if only in (None, app) and _may_see(app, name) and _can_see(app, conversation):
                self._platform.deliveries.start(app, "events_api", name, self._wrapped(app, event))

    def _wrapped(self, app: App, event: Json) -> Json:
        authorization = {
            "enterprise_id": None,
            "team_id": self._team.id,
            "user_id": app.bot_user,
            "is_bot": True,
            "is_enterprise_install": False,
        }
        return {
            "token": app.verification_token,
            "team_id": self._team.id,
            "context_team_id": self._team.id,
            "context_enterprise_id": None,
            "api_app_id": app.id,
            "event": event,
            "type": "event_callback",
            "event_id": self._team.new_id("Ev"),
            "event_time": int(float(event["event_ts"])),
            "authorizations": [authorization],
            "is_ext_shared_channel": False,
            "event_context": f"4-{app.id}",
        }

    def _described(self, message: Message, conversation: Conversation) -> Json:
        place = {"channel": conversation.id, "channel_type": conversation.kind, "event_ts": message.ts}
        told = message.payload() | place
        if message.subtype == "thread_broadcast":
            told["root"] = conversation.messages[message.root].payload()
        return told

    def _hidden(self, subtype: str, conversation: Conversation, ts: str, **facts: object) -> None:
        event = {
            "type": "message",
            "subtype": subtype,
            "hidden": True,
            "channel": conversation.id,
            "channel_type": conversation.kind,
            "ts": ts,
            "event_ts": ts,
            **facts,
        }
        self.emit(f"message.{KIND_SCOPES[conversation.kind]}", event, conversation)


def _may_see(app: App, name: str) -> bool:
    scope = EVENT_SCOPES[name]
    return (app.events is None or name in app.events) and (not scope or scope in app.scopes)


def _can_see(app: App, conversation: Conversation | None) -> bool:
    return conversation is None or app.bot_user in conversation.members
