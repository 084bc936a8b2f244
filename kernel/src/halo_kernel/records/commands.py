"""Commands: what a person asks of the server itself, in the place of a message to an agent."""

from __future__ import annotations

from msgspec import Struct

from .sessions import Access


class CommandVerb(Struct, frozen=True, kw_only=True):
    """One thing that a command does: who may ask for it, other words for it, and what it is told, such as `<id>`."""

    summary: str
    access: Access = "readonly"
    aliases: tuple[str, ...] = ()
    arguments: str = ""


class CommandSpec(Struct, frozen=True, kw_only=True):
    """A command, `/name`, as lists and help show it. One without `verbs` is told all that follows its name."""

    name: str
    summary: str
    access: Access = "readonly"
    verbs: dict[str, CommandVerb] = {}
    arguments: str = ""


class CommandResult(Struct, frozen=True, kw_only=True):
    """What came of a command: words for the person, and the session in which the conversation goes on, '' for here."""

    text: str
    ok: bool = True
    session: str = ""
