"""Accounts of channels, and what arrives through them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .sessions import Access, Mode


class Account(Struct, frozen=True, kw_only=True):
    """One connection of a channel, such as a bot: `type` is the channel's, `id` unique within it.

    `workspace` is the folder that it speaks for, `access` the most that anybody who writes to it may do, `allowed` the
    users who may write (empty: all), `config` what its channel needs to know, without secrets.
    """

    type: str
    id: str
    workspace: str
    label: str = ""
    enabled: bool = True
    access: Access = "readonly"
    language: Literal["en", "zh"] = "en"
    allowed: tuple[str, ...] = ()
    config: dict[str, object] = {}


class AccountField(Struct, frozen=True, kw_only=True):
    """Something that a channel has to know of an account, in its `config` or among its secrets under `name`."""

    name: str
    label: str
    help: str = ""
    secret: bool = False
    optional: bool = False


class Readiness(Struct, frozen=True, kw_only=True):
    """Whether an account hears its platform, and why not. `silence`: seconds since it last did, None if never."""

    ready: bool
    reason: str = ""
    silence: float | None = None


class Arrival(Struct, frozen=True, kw_only=True):
    """A message as a channel received it: `key` is the platform's own id of it, unique for its account and user.

    `<type>:<account>:<key>` has at most 300 characters. The answer goes to `chat`, which has no colon, and there to
    `thread` if it has one. `conversation` names the session that it belongs to, '' for one a chat and thread.
    """

    key: str
    chat: str
    user: str
    text: str
    thread: str = ""
    conversation: str = ""
    mode: Mode = "interrupt_soft"
