"""Whether a message is meant for the bot, and what it says to it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET

from .updates import Entity, Message, Person, cut

Rule = Literal["mention", "all", "off"]


@dataclass(frozen=True)
class Me:
    """The bot itself; `username` without its @."""

    id: int
    username: str

    @classmethod
    def of(cls, person: Person) -> Me:
        """Return it as `getMe` tells it."""
        return cls(person.id, person.username)


def is_meant(message: Message, me: Me, rule: Rule, commands: Collection[str] = ()) -> bool:
    """Tell whether a message is for the bot: all that is said in private, in a group by the account's rule.

    By `mention` that is what names it, replies to it, or is one of its `commands`; never what is for another bot.
    """
    if message.chat.type == "private":
        return True
    if message.chat.type == "channel" or rule == "off":
        return False
    command, _, name = _command(message).partition("@")
    if name:
        return name.lower() == me.username.lower()
    return (
        rule == "all"
        or command in commands
        or _answers(message, me)
        or any(_names(message, each, me) for each in message.marks)
    )


def said(message: Message, me: Me) -> str:
    """Return what a message says, without the bot's name where it was only called by it."""
    text, called = message.words, f"@{me.username}"
    for mark in sorted(message.marks, key=lambda each: each.offset, reverse=True):
        found = cut(text, mark.offset, mark.length)
        if mark.type in ("mention", "bot_command") and found.lower().endswith(called.lower()):
            at = len(cut(text, 0, mark.offset)) + len(found) - len(called)
            text = text[:at] + text[at + len(called) :]
    return text.strip() or message.words.strip()


def _command(message: Message) -> str:
    """Return the command that a message begins with, '' for none."""
    first = next((each for each in message.marks if each.type == "bot_command" and each.offset == 0), None)
    return cut(message.words, 0, first.length)[1:] if first else ""


def _answers(message: Message, me: Me) -> bool:
    """Tell whether it replies to the bot: in a topic, all messages reply to its first one, which does not count."""
    to = message.reply_to_message
    return to is not None and to.sender is not None and to.sender.id == me.id and to.forum_topic_created is UNSET


def _names(message: Message, mark: Entity, me: Me) -> bool:
    if mark.type == "text_mention":
        return mark.user is not None and mark.user.id == me.id
    return mark.type == "mention" and cut(message.words, mark.offset, mark.length).lower() == f"@{me.username.lower()}"
