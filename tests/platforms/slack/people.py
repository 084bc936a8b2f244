"""What people do and see in Slack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from .arguments import Arguments
from .files import new_file
from .ledger import Delivered
from .markup import rich_text, typed
from .messages import Json, Message
from .platform import Platform
from .refusals import Refused
from .screen import on_screen
from .team import App, Conversation, Person

_T = TypeVar("_T")
_SLACKBOT = "USLACKBOT"


class People:
    """The people of the workspace; they and channels go by name (`kim`, `#general`) or id."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._team = platform.team

    def add_user(self, name: str) -> str:
        """Let somebody sign up; return the id."""
        return self._team.add_person(name).id

    def add_channel(self, name: str, members: Sequence[str] = (), *, private: bool = False) -> str:
        """Make a channel with members, bots among them; return the id."""
        kind, ids = "group" if private else "channel", [self._team.person(each).id for each in members]
        return self._team.add_conversation(kind, name, ids, now=self._platform.clock.now()).id

    def direct(self, *names: str) -> str:
        """Open the DM between these people, or find it; return the id."""
        ids = [self._team.person(each).id for each in names]
        conversation, _ = self._team.direct(ids, now=self._platform.clock.now())
        return conversation.id

    def invite(self, user: str, channel: str, who: str) -> None:
        """Bring somebody, a bot for instance, into a channel."""
        inviter = self._in(user, channel)[0].id
        self._platform.board.join(self._team.conversation(channel), self._team.person(who).id, inviter=inviter)

    def archive(self, channel: str) -> None:
        """Archive a channel."""
        self._team.conversation(channel).archived = True

    def say(self, user: str, channel: str, text: str, *, thread: str | None = None, broadcast: bool = False) -> str:
        """Write a message; `@name` mentions. Return its ts."""
        return self._say(user, channel, text, thread, broadcast=broadcast).ts

    def _say(self, user: str, channel: str, text: str, thread: str | None, **facts: Any) -> Message:
        person, conversation = self._in(user, channel)
        if conversation.archived:
            raise LookupError(f"channel: {channel!r} is archived")
        if thread is not None:
            self._message(conversation, thread)
        wire = typed(text, {name: each for each, name in self._team.names().items()})
        facts |= {"thread_ts": thread, "blocks": rich_text(wire) if wire else []}
        key = self._team.new_id("cmsg")
        return self._platform.board.post(conversation, person.id, wire, client_msg_id=key, **facts)

    def edit(self, user: str, channel: str, ts: str, text: str) -> None:
        """Edit one's own message."""
        message = self._own(user, channel, ts)
        wire = typed(text, {name: each for each, name in self._team.names().items()})
        self._platform.board.edit(message, by=message.user, text=wire, blocks=rich_text(wire))

    def delete(self, user: str, channel: str, ts: str) -> None:
        """Delete one's own message."""
        self._platform.board.delete(self._own(user, channel, ts))

    def react(self, user: str, channel: str, ts: str, name: str) -> None:
        """React to a message."""
        person, conversation = self._in(user, channel)
        self._platform.board.react(self._message(conversation, ts), person.id, name)

    def upload(
        self,
        user: str,
        channel: str,
        name: str,
        content: bytes,
        *,
        text: str = "",
        thread: str | None = None,
        mimetype: str | None = None,
    ) -> str:
        """Share a file; return the message's ts."""
        file = new_file(self._platform, name, self._team.person(user).id, len(content), mimetype=mimetype)
        file.content, file.state = content, "shared"
        file.channels.append(self._team.conversation(channel).id)
        told = [self._platform.board.file_payload(file)]
        return self._say(user, channel, text, thread, subtype="file_share", files=told).ts

    def open_home(self, user: str, app: App, *, tab: str = "home") -> None:
        """Look at the app's home, or at its messages."""
        person = self._team.person(user)
        channel = self.direct(person.id, app.bot_user)
        self._platform.events.home_opened(app, person.id, channel, tab=tab, ts=self._platform.board.new_ts())

    def stop_stream(self, user: str, channel: str, ts: str) -> None:
        """Press stop on a message that grows."""
        _, conversation = self._in(user, channel)
        self._message(conversation, ts).stopped_by_user = True

    async def press(self, user: str, channel: str, ts: str, action_id: str, *, option: str | None = None) -> Delivered:
        """Press a button, or choose an option, of a message; return what became of it."""
        person, conversation = self._in(user, channel)
        message = self._message(conversation, ts, reader=person.id)
        app = _first((each for each in self._team.apps.values() if each.id == message.app_id), "no app posted this")
        fitting = (found for found in _elements(message.blocks) if found[1].get("action_id") == action_id)
        block_id, element = _first(fitting, f"action_id: there is no {action_id!r} to press")
        payload = self._pressed(app, person, conversation, message)
        payload["actions"] = [_action(element, block_id, option, self._platform.board.new_ts())]
        return await self._platform.deliveries.start(app, "interactive", "interactive", payload)

    def _pressed(self, app: App, person: Person, conversation: Conversation, message: Message) -> Json:
        alone = message.ephemeral_to is not None
        container = {
            "type": "message",
            "message_ts": message.ts,
            "channel_id": conversation.id,
            "is_ephemeral": alone,
            **({"thread_ts": message.thread_ts} if message.thread_ts else {}),
        }
        return {
            "type": "block_actions",
            "team": {"id": self._team.id, "domain": self._team.domain},
            "user": {"id": person.id, "username": person.name, "name": person.name, "team_id": self._team.id},
            "api_app_id": app.id,
            "token": app.verification_token,
            "container": container,
            "trigger_id": self._platform.triggers.trigger(app, person.id),
            "channel": {"id": conversation.id, "name": conversation.name or "directmessage"},
            "message": message.payload(),
            "state": {"values": {}},
            "response_url": self._platform.triggers.response_url(app, person.id, conversation, message),
            "enterprise": None,
            "is_enterprise_install": False,
        }

    async def command(self, user: str, channel: str, command: str, text: str = "") -> Delivered | None:
        """Use a slash command; return what became of it, None where no app has such a command."""
        person, conversation = self._in(user, channel)
        app = next((each for each in self._team.apps.values() if command in each.commands), None)
        if app is None:
            self._slackbot(conversation, person, f"{command} is not a valid command.")
            return None
        payload = self._commanded(app, person, conversation) | {"command": command, "text": text}
        delivered = await self._platform.deliveries.start(app, "slash_commands", "slash_commands", payload)
        if delivered.state != "acked":
            outcome = delivered.attempts[-1].outcome
            error = "operation_timeout" if "timeout" in outcome else "dispatch_failed"
            self._slackbot(conversation, person, f'{command} failed with the error "{error}"')
        elif delivered.reply:
            self._show(app, person, conversation, command, delivered.reply)
        return delivered

    def _commanded(self, app: App, person: Person, conversation: Conversation) -> Json:
        return {
            "token": app.verification_token,
            "team_id": self._team.id,
            "team_domain": self._team.domain,
            "channel_id": conversation.id,
            "channel_name": conversation.name or "directmessage",
            "user_id": person.id,
            "user_name": person.name,
            "api_app_id": app.id,
            "is_enterprise_install": "false",
            "response_url": self._platform.triggers.response_url(app, person.id, conversation),
            "trigger_id": self._platform.triggers.trigger(app, person.id),
        }

    def _show(self, app: App, person: Person, conversation: Conversation, command: str, reply: Json) -> None:
        try:
            self._platform.triggers.show(app, person.id, conversation, Arguments(reply))
        except Refused as refused:
            self._slackbot(conversation, person, f'{command} failed with the error "{refused.error}"')

    def _slackbot(self, conversation: Conversation, person: Person, text: str) -> None:
        self._platform.board.post(conversation, _SLACKBOT, text, ephemeral_to=person.id)

    def read(self, channel: str, *, thread: str | None = None, everything: bool = False) -> list[Json]:
        """Return what stands in a channel, or in one thread with its first message, as people see it.

        `text` is what Slack keeps, `shown` what is read: the blocks if there are any. `everything` adds the other
        threads' replies and what was deleted.
        """
        conversation = self._team.conversation(channel)
        names = self._team.names()
        return [
            _seen(each, names)
            for each in conversation.messages.values()
            if everything or (not each.deleted and (each.root == thread if thread else each.in_channel))
        ]

    def answers(self, channel: str, *, thread: str | None = None) -> list[Json]:
        """Return what bots said to everybody: in the channel itself, or in one thread."""
        told = self.read(channel, thread=thread)
        return [each for each in told if each["bot"] and not each["ephemeral_to"] and each["ts"] != thread]

    def beside(self, channel: str, thread: str) -> Json:
        """Return status, title and prompts of an assistant's thread."""
        return asdict(self._platform.assistants.of(self._team.conversation(channel).id, thread))

    def download(self, file_id: str) -> bytes:
        """Return a file's bytes."""
        return self._team.files[file_id].content

    def _in(self, user: str, channel: str) -> tuple[Person, Conversation]:
        person, conversation = self._team.person(user), self._team.conversation(channel)
        if person.id not in conversation.members:
            raise LookupError(f"user: {user!r} is not in {channel!r}")
        return person, conversation

    def _message(self, conversation: Conversation, ts: str, *, reader: str | None = None) -> Message:
        message = conversation.messages.get(ts)
        if message is None or message.deleted or message.ephemeral_to not in (None, reader):
            raise LookupError(f"ts: there is no {ts!r} in {conversation.name or conversation.id!r}")
        return message

    def _own(self, user: str, channel: str, ts: str) -> Message:
        person, conversation = self._in(user, channel)
        message = self._message(conversation, ts)
        if message.user != person.id:
            raise LookupError(f"ts: {ts!r} is not by {user!r}")
        return message


def _first(candidates: Iterator[_T], otherwise: str) -> _T:
    for each in candidates:
        return each
    raise LookupError(otherwise)


def _elements(blocks: Sequence[Any]) -> Iterator[tuple[str, Json]]:
    for block in blocks:
        for element in [*block.get("elements", ()), block.get("accessory"), block.get("element")]:
            if isinstance(element, dict):
                yield str(block.get("block_id", "")), element


def _action(element: Json, block_id: str, option: str | None, ts: str) -> Json:
    action: Json = {"type": element["type"], "action_id": element["action_id"], "block_id": block_id, "action_ts": ts}
    if element["type"] == "button":
        return action | {name: element[name] for name in ("text", "value", "style") if name in element}
    fitting = (each for each in element.get("options", ()) if each["value"] == option)
    chosen = _first(fitting, f"option: there is no {option!r} to choose")
    return action | {"selected_option": chosen}


def _seen(message: Message, names: Mapping[str, str]) -> Json:
    buttons = [element for _, element in _elements(message.blocks) if element.get("action_id")]
    return {
        "ts": message.ts,
        "user": message.username or names.get(message.user, message.user),
        "bot": message.bot_id is not None,
        "text": message.text,
        "shown": on_screen(message, names),
        "thread": message.thread_ts if message.is_reply else None,
        "broadcast": message.broadcast,
        "edited": message.edited is not None,
        "versions": list(message.versions),
        "deleted": message.deleted or message.subtype == "tombstone",
        "ephemeral_to": names.get(message.ephemeral_to or "", message.ephemeral_to),
        "blocks": message.blocks,
        "buttons": buttons,
        "files": [{"id": each["id"], "name": each["name"], "size": each["size"]} for each in message.files],
        "reactions": message.reactions,
        "streaming": message.streaming,
        "chunks": message.chunks,
        "metadata": message.metadata,
        "subtype": message.subtype,
    }
