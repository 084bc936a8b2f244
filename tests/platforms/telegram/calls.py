"""One call of a bot: who asks for what, and where it would go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from .arguments import Arguments
from .bots import Bot
from .chats import Chat
from .posts import Body, Post
from .refusals import Refused, bad_request, too_many_requests
from .texts import Formatted, read_caption, read_text
from .world import World

MAX_ID = 2**31 - 1


@dataclass(frozen=True)
class Call:
    """A method's call with its arguments."""

    world: World
    bot: Bot
    arguments: Arguments

    def chat(self, *, write: bool = True) -> Chat:
        """Return the chat that is named, if the bot may read or write there."""
        chat = self.world.chat(self.bot, self.arguments.text("chat_id"))
        chat.check(self.bot.id, write=write)
        return chat

    def message(self, what: str, *, write: bool = True) -> Post:
        """Return the message that is named; `what` is its name in a refusal."""
        chat = self.chat(write=write)
        post = chat.posts.get(self.arguments.integer("message_id", low=0, high=MAX_ID))
        if post is None or post.deleted:
            raise bad_request(f"{what} not found")
        return post

    def place(self) -> Place:
        """Return where a message would go, with the topic and the message it answers."""
        chat = self.chat()
        thread = chat.thread(self.arguments.integer("message_thread_id", low=0, high=MAX_ID))
        replied, quote = self._replied(chat)
        if replied is None:
            return Place(chat, thread)
        return Place(chat, thread or replied.thread, replied.id, quote)

    def _replied(self, chat: Chat) -> tuple[Post | None, str]:
        said = self.arguments.document("reply_parameters", "reply parameters")
        if said is None:
            old = self.arguments.integer("reply_to_message_id", low=0, high=MAX_ID)
            said = {"message_id": old} if old else {}
            said |= {"allow_sending_without_reply": self.arguments.flag("allow_sending_without_reply")} if old else {}
        if not isinstance(said, dict):
            raise bad_request("object expected as reply parameters")
        if not said:
            return None, ""
        if not isinstance(said.get("message_id"), int):
            raise bad_request('can\'t find field "message_id"')
        elsewhere = said.get("chat_id") not in (None, chat.id, str(chat.id))
        post = None if elsewhere else chat.posts.get(said["message_id"])
        if post is None or post.deleted:
            if said.get("allow_sending_without_reply"):
                return None, ""
            raise bad_request("message to be replied not found")
        return post, _quote(said, post)

    def text(self) -> Formatted:
        """Return the text of a message."""
        return read_text(self.arguments, limit=self.world.rules.text, users=self.world.users)

    def caption(self) -> Formatted:
        """Return the text that goes with a file."""
        return read_caption(self.arguments, limit=self.world.rules.caption, users=self.world.users)

    def spend(self, chat: Chat) -> None:
        """Count a message or an edit against the bot's limits, if they are on."""
        if self.world.rules.flood:
            seconds = self.bot.flood.wait(chat.id, group=chat.is_group, now=self.world.clock.now())
            if seconds:
                raise too_many_requests(seconds)

    def say(self, place: Place, body: Body, **more: Any) -> Post:
        """Post the bot's message; what it streamed there is over with that."""
        chat = place.chat
        for key in [key for key in chat.drafts if key[0] == place.thread]:
            del chat.drafts[key]
        more |= {"thread": place.thread, "reply_to": place.reply_to, "quote": place.quote}
        post = self.world.post(chat, self.bot.account, body, **more)
        return post

    def with_arguments(self, arguments: Arguments) -> Call:
        """Return the same call with other arguments."""
        return replace(self, arguments=arguments)


def _quote(said: dict[str, Any], post: Post) -> str:
    quote = said.get("quote") or ""
    if quote and quote not in post.body.text.text:
        raise bad_request("QUOTE_TEXT_INVALID")
    return str(quote)


@dataclass(frozen=True)
class Place:
    """Where in a chat a message goes."""

    chat: Chat
    thread: int = 0
    reply_to: int = 0
    quote: str = ""


Answer = Any
Method = Callable[[Call], Answer | Awaitable[Answer]]
NO_METHOD = Refused(404, "Not Found: method not found")
