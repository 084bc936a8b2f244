"""A test's side of the platform: people who say things, and what they see. Every answer is JSON or bytes.

`bot` and `chat` are numbers; `bot` 0 is the only one there is, `chat` 0 the private chat of the person with that bot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from .arguments import Arguments, Upload
from .bots import Bot
from .calls import MAX_ID
from .chats import Chat, Kind, Status, User
from .faults import Fault
from .files import Stored
from .posts import Body, Post
from .refusals import bad_request
from .rooms import close_topic, delete_topic, open_topic, stand
from .texts import Formatted, read_formatted
from .world import World

MIMES = {
    "photo": "image/png",
    "voice": "audio/ogg",
    "video": "video/mp4",
    "audio": "audio/mpeg",
    "video_note": "video/mp4",
}


class Stage:
    """People and their chats."""

    def __init__(self, world: World) -> None:
        self._world = world

    # who there is

    def bot(self, username: str = "halo_bot", *, first_name: str = "Halo", privacy: bool = True) -> dict[str, Any]:
        """Make a bot as BotFather does; return its `id`, `token` and `username`."""
        number = self._world.user_id(bot=True)
        bot = Bot(User(number, first_name, username, is_bot=True), f"{number}:AAE{username:-<32.32}", privacy)
        self._world.add(bot)
        return {"id": bot.id, "token": bot.token, "username": username}

    def privacy(self, on: bool, *, bot: int = 0) -> None:
        """Switch whether a bot hears in groups only what is meant for it."""
        self._world.bot(bot).privacy = on

    def user(self, first_name: str = "Ann", *, username: str = "", started: Sequence[int] = ()) -> int:
        """Make a person, who has spoken to the bots in `started`; return the number."""
        user = User(self._world.user_id(), first_name, username, language_code="en")
        self._world.users[user.id] = user
        for number in started:
            self._chat(user.id, 0, number).started = True
        return user.id

    def group(
        self,
        title: str,
        people: Sequence[int],
        *,
        bots: Sequence[int] | None = None,
        kind: Kind = "group",
        forum: bool = False,
        admin: bool = False,
    ) -> int:
        """Make a group, of the first person, with every bot or some (as administrators); return the number."""
        kind = "supergroup" if forum else kind
        chat = Chat(self._world.group_id(supergroup=kind == "supergroup"), kind, title, is_forum=forum)
        self._world.groups[chat.id] = chat
        owner = self._person(people[0])
        for number in people:
            chat.admit(self._person(number), "creator" if number == owner.id else "member")
        for bot in self._world.bots.values():
            if bots is None or bot.id in bots:
                stand(self._world, chat, bot.account, "administrator" if admin else "member", by=owner)
        return chat.id

    def stand(self, chat: int, who: int, status: Status, *, by: int = 0) -> None:
        """Put a bot or a person into a group, out of it, or into another standing."""
        group = self._group(chat)
        user = self._world.users.get(who) or self._world.bot(who).account
        actor = self._world.users.get(by) or group.people[next(iter(group.members))]
        stand(self._world, group, user, status, by=actor)

    def block(self, user: int, *, bot: int = 0, blocked: bool = True) -> None:
        """Let a person block a bot, or unblock it."""
        chat, account = self._chat(user, 0, bot), self._world.bot(bot).account
        stand(self._world, chat, account, "kicked" if blocked else "member", by=self._person(user))

    def topic(self, chat: int, name: str, *, user: int = 0) -> int:
        """Begin a topic in a forum; return its thread's number."""
        group = self._group(chat)
        by = self._world.users.get(user) or group.people[next(iter(group.members))]
        return open_topic(self._world, group, name, by).id

    def close_topic(self, chat: int, thread: int, *, closed: bool = True) -> None:
        """Close a topic, or open it again."""
        close_topic(self._world, self._group(chat).topics[thread], closed=closed)

    def delete_topic(self, chat: int, thread: int) -> None:
        """Take a topic away."""
        delete_topic(self._world, self._group(chat), thread)

    def migrate(self, chat: int) -> int:
        """Make a group a supergroup; return its new number."""
        old = self._group(chat)
        number = self._world.group_id(supergroup=True)
        new = Chat(number, "supergroup", old.title, members=dict(old.members), people=dict(old.people))
        self._world.groups[number] = new
        owner = old.people[next(iter(old.members))]
        leaves = self._world.post(old, owner, Body(media="migrate_to_chat_id", attached=number))
        self._world.tell(leaves)
        old.migrated_to = number
        self._world.tell(self._world.post(new, owner, Body(media="migrate_from_chat_id", attached=chat)))
        return number

    # what they do

    def say(
        self,
        user: int,
        text: str,
        *,
        chat: int = 0,
        bot: int = 0,
        thread: int = 0,
        reply_to: int = 0,
        parse_mode: str = "",
    ) -> int:
        """Let a person write; return the message's number."""
        body = Body(
            read_formatted(Arguments({"text": text, "parse_mode": parse_mode}), "text", "entities", self._world.users)
        )
        return self._speak(user, chat, bot, body, thread=thread, reply_to=reply_to)

    def send(
        self,
        user: int,
        kind: str,
        data: bytes,
        *,
        filename: str = "",
        mime: str = "",
        caption: str = "",
        chat: int = 0,
        bot: int = 0,
        thread: int = 0,
        reply_to: int = 0,
        album: str = "",
    ) -> int:
        """Let a person send a file: photo, document, voice, video, audio or video_note."""
        where = self._chat(user, chat, bot)
        owner, *others = self._world.listeners(where)
        upload = Upload(filename, mime or MIMES.get(kind, "application/octet-stream"), data)
        attached = owner.files.keep(kind, upload)
        for other in others:
            other.files.share(owner.files, attached)
        said = (
            read_formatted(Arguments({"caption": caption}), "caption", "", self._world.users)
            if caption
            else Formatted()
        )
        body = Body(said, kind, attached)
        return self._speak(user, chat, bot, body, thread=thread, reply_to=reply_to, album=album)

    def _speak(self, user: int, chat: int, bot: int, body: Body, **more: Any) -> int:
        where = self._chat(user, chat, bot)
        where.started = True
        where.thread(more["thread"])
        if where.migrated_to:
            raise ValueError(f"chat: {where.id} has become {where.migrated_to}")
        if where.status(user) in ("left", "kicked"):
            raise ValueError(f"user: {user} is not in chat {where.id}")
        if more["reply_to"] and not more["thread"]:
            more["thread"] = where.posts[more["reply_to"]].thread
        post = self._world.post(where, self._person(user), body, **more)
        self._world.tell(post)
        return post.id

    def edit(self, user: int, message_id: int, text: str, *, chat: int = 0, bot: int = 0) -> None:
        """Let a person change what they wrote."""
        post = self._post(user, message_id, chat, bot)
        said = read_formatted(Arguments({"text": text}), "text", "", self._world.users)
        post.edit(replace(post.body, text=said), post.markup, self._world.now)
        self._world.tell(post, "edited_message")
        self._world.changed()

    def delete(self, user: int, message_id: int, *, chat: int = 0, bot: int = 0) -> None:
        """Let a person take a message away; no bot hears of that."""
        self._post(user, message_id, chat, bot).deleted = self._world.now
        self._world.changed()

    def press(self, user: int, message_id: int, data: str, *, chat: int = 0, bot: int = 0) -> str:
        """Let a person press a button of a bot's message; return the query's number."""
        post = self._post(user, message_id, chat, bot)
        rows = (post.markup or {}).get("inline_keyboard", [])
        if not any(button.get("callback_data") == data for row in rows for button in row):
            raise ValueError(f"data: message {message_id} shows no button {data!r}")
        query_id = self._world.other_id()
        query = {"id": query_id, "from": self._person(user).record, "message": post.record}
        query |= {"chat_instance": str(post.chat.id * 7919), "data": data}
        owner = self._world.bot(post.sender.id)
        owner.callbacks[query_id] = query
        owner.updates.add("callback_query", query)
        return query_id

    def react(self, user: int, message_id: int, emoji: str, *, chat: int = 0, bot: int = 0) -> None:
        """Let a person react, or take the reaction back with ''."""
        post = self._post(user, message_id, chat, bot)
        new = [{"type": "emoji", "emoji": emoji}] if emoji else []
        change = {"chat": post.chat.record, "message_id": message_id, "user": self._person(user).record}
        change |= {"date": self._world.now, "old_reaction": post.reactions.get(user, []), "new_reaction": new}
        post.reactions[user] = new
        for listener in self._world.listeners(post.chat):
            listener.updates.add("message_reaction", change)

    # what they see

    def history(self, user: int = 0, *, chat: int = 0, bot: int = 0, thread: int | None = None) -> list[dict[str, Any]]:
        """Return every message of a chat, oldest first, also deleted ones and what edited ones were before."""
        posts = self._chat(user, chat, bot).posts.values()
        return [post.seen for post in posts if thread in (None, post.thread)]

    def shown(self, user: int = 0, *, chat: int = 0, bot: int = 0, thread: int | None = None) -> list[dict[str, Any]]:
        """Return what a person sees now of what bots said."""
        seen = self.history(user, chat=chat, bot=bot, thread=thread)
        return [each for each in seen if each["is_bot"] and not each["deleted"] and not each["service"]]

    def texts(self, user: int = 0, *, chat: int = 0, bot: int = 0, thread: int | None = None) -> list[str]:
        """Return the texts that a person sees now of what bots said."""
        return [each["text"] for each in self.shown(user, chat=chat, bot=bot, thread=thread)]

    def drafts(self, user: int, *, bot: int = 0) -> list[str]:
        """Return what a bot is writing to a person right now."""
        return list(self._chat(user, 0, bot).drafts.values())

    def actions(self, user: int = 0, *, chat: int = 0, bot: int = 0) -> list[tuple[int, str]]:
        """Return what a bot was seen doing, each with its thread."""
        return list(self._chat(user, chat, bot).actions)

    def popups(self) -> list[dict[str, Any]]:
        """Return what people saw after they had pressed buttons."""
        return list(self._world.popups)

    def commands(self, *, bot: int = 0) -> list[dict[str, Any]]:
        """Return the registered commands, by scope and language."""
        kept = self._world.bot(bot).commands.items()
        return [{"scope": scope, "language": language, "commands": listed} for (scope, language), listed in kept]

    def content(self, file_id: str, *, bot: int = 0) -> bytes:
        """Return what is in a file."""
        stored: Stored = self._world.bot(bot).files.known[file_id]
        return stored.data

    # what the platform saw, and what it does to bots

    def calls(self, method: str = "", *, bot: int = 0) -> list[dict[str, Any]]:
        """Return the calls that arrived, oldest first, each with what came of it."""
        wanted = method.lower()
        return [
            each.record for each in self._world.calls if wanted in ("", each.method.lower()) and bot in (0, each.bot)
        ]

    def pending(self, *, bot: int = 0) -> list[dict[str, Any]]:
        """Return the updates that no poll has confirmed and no webhook has taken."""
        return list(self._world.bot(bot).updates.pending)

    def updates(self, *, bot: int = 0) -> list[dict[str, Any]]:
        """Return every update that there ever was."""
        return list(self._world.bot(bot).updates.past.values())

    def polling(self, *, bot: int = 0) -> bool:
        """Return whether a getUpdates waits right now."""
        return self._world.bot(bot).updates.poll is not None

    def pushes(self) -> list[dict[str, Any]]:
        """Return what was pushed to webhooks, and what they answered."""
        return list(self._world.pushes)

    def inject(self, kind: str, body: dict[str, Any], *, bot: int = 0) -> int:
        """Queue an update of any kind, also of one that nobody knows."""
        return self._world.bot(bot).updates.add(kind, body, asked=True)

    def repeat(self, update_id: int, *, bot: int = 0) -> None:
        """Let an update arrive once more, under the same number."""
        self._world.bot(bot).updates.repeat(update_id)

    def hang_up(self, *, bot: int = 0) -> bool:
        """Break the connection of the poll that waits; return whether there was one."""
        return self._world.bot(bot).updates.end(hung_up=True)

    def revoke(self, *, bot: int = 0, revoked: bool = True) -> None:
        """Make a token worthless, or valid again."""
        owner = self._world.bot(bot)
        owner.revoked = revoked
        owner.updates.end(hung_up=True)

    def fault(self, kind: str, **options: Any) -> int:
        """Begin a fault, see `Fault` for its options (`lasting`, in seconds, instead of `until`); return its number."""
        if "lasting" in options:
            options["until"] = self._world.clock.now() + options.pop("lasting")
            options.setdefault("times", None)
        return self._world.faults.add(Fault(kind, **options))  # type: ignore[arg-type]  # checked by Fault

    def end_faults(self, fault: int | None = None) -> None:
        """End one fault, or all."""
        self._world.faults.end(fault)

    def faults(self) -> list[dict[str, Any]]:
        """Return every fault and how often each met a call."""
        return self._world.faults.records

    def rules(self, **changes: Any) -> dict[str, Any]:
        """Change rules; return them all."""
        self._world.rules = self._world.rules.changed(**changes)
        return asdict(self._world.rules)

    def advance(self, seconds: float) -> float:
        """Let the platform's time go on; return what it is."""
        self._world.clock.ahead += seconds
        self._world.changed()
        return self._world.clock.now()

    def hurry(self, *, bot: int = 0) -> None:
        """Let a webhook that failed be tried at once."""
        self._world.bot(bot).hurry.set()

    def _person(self, number: int) -> User:
        if number not in self._world.users:
            raise LookupError(f"user: nobody has the number {number}")
        return self._world.users[number]

    def _group(self, number: int) -> Chat:
        if number not in self._world.groups:
            raise LookupError(f"chat: no group has the number {number}")
        return self._world.groups[number]

    def _chat(self, user: int, chat: int, bot: int) -> Chat:
        if chat and chat in self._world.groups:
            return self._group(chat)
        owner = self._world.bot(bot)
        person = self._person(chat or user)
        return owner.chats.setdefault(person.id, Chat(person.id, "private", user=person, started=False))

    def _post(self, user: int, message_id: int, chat: int, bot: int) -> Post:
        post = self._chat(user, chat, bot).posts.get(min(message_id, MAX_ID))
        if post is None or post.deleted:
            raise bad_request("message not found")
        return post
