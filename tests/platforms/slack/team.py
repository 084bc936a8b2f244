"""A Slack workspace: its people, conversations, messages, files and apps. Nothing here waits or sends."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .messages import Json, Message
from .rules import BOT_SCOPES

_BASE36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(kw_only=True)
class Person:
    """A user; the bot user of an app is one too."""

    id: str
    name: str
    team: str
    is_bot: bool = False
    deleted: bool = False

    def payload(self) -> Json:
        """Return the user as `users.info` shows it."""
        profile = {"real_name": self.name.title(), "display_name": self.name, "email": f"{self.name}@example.com"}
        return {
            "id": self.id,
            "team_id": self.team,
            "name": self.name,
            "real_name": self.name.title(),
            "deleted": self.deleted,
            "is_bot": self.is_bot,
            "is_app_user": False,
            "tz": "Etc/UTC",
            "tz_offset": 0,
            "profile": profile,
        }


@dataclass(kw_only=True)
class Conversation:
    """A channel, a private channel (`group`), a DM (`im`) or a DM of several (`mpim`)."""

    id: str
    kind: str
    name: str
    created: int
    creator: str
    members: list[str] = field(default_factory=list)
    archived: bool = False
    messages: dict[str, Message] = field(default_factory=dict)

    def replies(self, root: str) -> list[Message]:
        """Return what stands in a thread and was not deleted, in order, without the first message."""
        return [each for each in self.messages.values() if each.is_reply and each.root == root and _visible(each)]

    def payload(self, *, seen_by: str) -> Json:
        """Return the conversation as `conversations.info` shows it."""
        told: Json = {"id": self.id, "created": self.created, "is_archived": self.archived, "is_im": self.kind == "im"}
        if self.kind == "im":
            other = next((each for each in self.members if each != seen_by), seen_by)
            return {**told, "user": other, "is_org_shared": False, "is_open": True}
        return {
            **told,
            "name": self.name,
            "name_normalized": self.name,
            "is_channel": self.kind == "channel",
            "is_group": self.kind == "group",
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "channel",
            "is_member": seen_by in self.members,
            "is_general": self.name == "general",
            "creator": self.creator,
            "num_members": len(self.members),
            "topic": {"value": "", "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
        }


@dataclass(kw_only=True)
class App:
    """An app and how it is installed. `events` names what it subscribed to, None is everything."""

    id: str
    name: str
    bot_id: str
    bot_user: str
    token: str
    app_token: str
    signing_secret: str
    verification_token: str
    scopes: set[str] = field(default_factory=lambda: set(BOT_SCOPES))
    events: set[str] | None = None
    commands: set[str] = field(default_factory=set)
    request_url: str | None = None
    interactivity_url: str | None = None
    commands_url: str | None = None
    revoked: bool = False
    app_token_revoked: bool = False


@dataclass(kw_only=True)
class StoredFile:
    """A file: `announced` has an address to upload to, `uploaded` has bytes, `shared` is complete, then `deleted`."""

    id: str
    name: str
    title: str
    mimetype: str
    user: str
    created: int
    size: int
    content: bytes = b""
    state: str = "announced"
    channels: list[str] = field(default_factory=list)


class Team:
    """The workspace."""

    def __init__(self, *, domain: str = "birds") -> None:
        self.id = "T0BIRDS01"
        self.domain = domain
        self.people: dict[str, Person] = {}
        self.conversations: dict[str, Conversation] = {}
        self.apps: dict[str, App] = {}
        self.files: dict[str, StoredFile] = {}
        self._ids = itertools.count(1)
        self._last_ts = 0

    def new_id(self, letter: str) -> str:
        """Return a new id such as `C0000000A7`."""
        number, digits = next(self._ids) + 36**3, ""
        while number:
            number, digit = divmod(number, 36)
            digits = _BASE36[digit] + digits
        return letter + digits.rjust(10, "0")

    def new_ts(self, milliseconds: int) -> str:
        """Return a ts, later than every one before."""
        self._last_ts = max(milliseconds * 1000, self._last_ts + 1)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def add_person(self, name: str, *, is_bot: bool = False) -> Person:
        """Add somebody; names are unique."""
        if any(each.name == name for each in self.people.values()):
            raise ValueError(f"name: {name!r} is taken")
        person = Person(id=self.new_id("U"), name=name, team=self.id, is_bot=is_bot)
        self.people[person.id] = person
        return person

    def add_app(self, name: str) -> App:
        """Add an app with its bot user and tokens made of its name."""
        bot = self.add_person(name, is_bot=True)
        app_id = self.new_id("A")
        app = App(
            id=app_id,
            name=name,
            bot_id=self.new_id("B"),
            bot_user=bot.id,
            token=f"xoxb-1-{name}-bot-token",
            app_token=f"xapp-1-{app_id}-{name}-app-token",
            signing_secret=f"{name}-signing-secret",
            verification_token=f"{name}-verification",
        )
        self.apps[app.id] = app
        return app

    def add_conversation(self, kind: str, name: str, members: Iterable[str], *, now: int) -> Conversation:
        """Add a channel, group, im or mpim; as on Slack today, only the id of an im tells its kind."""
        letter = {"channel": "C", "group": "C", "im": "D", "mpim": "C"}[kind]
        ids = list(members)
        made = Conversation(
            id=self.new_id(letter),
            kind=kind,
            name=name,
            created=now // 1000,
            creator=ids[0] if ids else "",
            members=ids,
        )
        self.conversations[made.id] = made
        return made

    def direct(self, members: Iterable[str], *, now: int) -> tuple[Conversation, bool]:
        """Return the DM between these people, and whether it was there before."""
        wanted = list(dict.fromkeys(members))
        for each in self.conversations.values():
            if each.kind in ("im", "mpim") and set(each.members) == set(wanted):
                return each, True
        kind = "im" if len(wanted) <= 2 else "mpim"
        name = "" if kind == "im" else "mpdm-" + "--".join(self.people[each].name for each in wanted) + "-1"
        return self.add_conversation(kind, name, wanted, now=now), False

    def person(self, name: str) -> Person:
        """Return somebody by id or name."""
        found = self.people.get(name) or next((each for each in self.people.values() if each.name == name), None)
        if found is None:
            raise LookupError(f"user: there is no {name!r}")
        return found

    def conversation(self, name: str) -> Conversation:
        """Return a conversation by id or `#name`."""
        bare = name.removeprefix("#")
        named = (each for each in self.conversations.values() if each.name and each.name == bare)
        found = self.conversations.get(name) or next(named, None)
        if found is None:
            raise LookupError(f"channel: there is no {name!r}")
        return found

    def app_of(self, token: str) -> App | None:
        """Return whose bot or app token this is."""
        return next((each for each in self.apps.values() if token in (each.token, each.app_token)), None)

    def names(self) -> dict[str, str]:
        """Return the name of every person and conversation by id."""
        people = {each.id: each.name for each in self.people.values()}
        return people | {each.id: each.name for each in self.conversations.values() if each.name}

    def profile(self, app: App) -> dict[str, Any]:
        """Return what a message tells of the app that posted it."""
        return {"id": app.bot_id, "app_id": app.id, "name": app.name, "deleted": False, "team_id": self.id}


def _visible(message: Message) -> bool:
    return not message.deleted and message.ephemeral_to is None
