"""Methods about the bot itself: who it is, its commands, its end; and how it receives updates."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from .bots import Commands, Webhook
from .calls import Answer, Call, Method
from .refusals import bad_request, conflict
from .units import length
from .updates import Poll

WEBHOOK_ACTIVE = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
LONGEST_POLL = 50  # seconds
UPDATES = 100
PORTS = (443, 80, 88, 8443)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
COMMANDS = 100
LOGGED_OUT_SECONDS = 600
SCOPE_NAMES = "default all_private_chats all_group_chats all_chat_administrators chat chat_administrators chat_member"
SCOPES = SCOPE_NAMES.split()


class HungUp(Exception):
    """The connection of a poll is to break."""


def get_me(call: Call) -> Answer:
    """Say who the bot is."""
    return call.bot.record


async def get_updates(call: Call) -> Answer:
    """Return what waits, or wait for it; what comes before `offset` is confirmed."""
    if call.bot.webhook.url:
        raise conflict(WEBHOOK_ACTIVE)
    updates = call.bot.updates
    offset = call.arguments.integer("offset")
    poll = Poll(offset, call.arguments.integer("limit", UPDATES, low=1, high=UPDATES))
    timeout = call.arguments.integer("timeout", low=0, high=LONGEST_POLL)
    updates.allow(call.arguments.document("allowed_updates", "allowed updates"))
    updates.confirm(offset)
    if (found := updates.take(poll.limit)) or not timeout:
        return found
    updates.wait(poll)
    call.world.changed()
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(poll.woken.wait(), timeout)
    finally:
        if updates.poll is poll:
            updates.poll = None
    if poll.hung_up:
        raise HungUp
    if poll.ended_by:
        raise conflict(poll.ended_by)
    return updates.take(poll.limit)


def set_webhook(call: Call) -> Answer:
    """Have updates pushed to an address."""
    url = call.arguments.text("url")
    if not url:
        return delete_webhook(call)
    secret = call.arguments.text("secret_token")
    _check_url(url, plain=call.world.rules.plain_webhooks)
    if len(secret) > 256:
        raise bad_request("secret token is too long")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", secret):
        raise bad_request("secret token contains unallowed characters")
    updates = call.bot.updates
    if call.arguments.flag("drop_pending_updates"):
        updates.clear()
    updates.allow(call.arguments.document("allowed_updates", "allowed updates"))
    updates.end("terminated by setWebhook request")
    call.bot.hurry.set()
    call.bot.webhook = Webhook(url, secret, call.arguments.integer("max_connections", 40, low=1, high=100))
    updates.wake()
    call.world.changed()
    return True


def _check_url(url: str, *, plain: bool) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise bad_request("invalid webhook URL specified") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise bad_request("invalid webhook URL specified")
    if plain and parts.hostname in LOOPBACK:
        return
    if parts.scheme != "https":
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    if port not in PORTS:
        raise bad_request("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443")
    if parts.hostname in LOOPBACK:
        raise bad_request(f"bad webhook: IP address {parts.hostname} is reserved")


def delete_webhook(call: Call) -> Answer:
    """Push no more."""
    if call.arguments.flag("drop_pending_updates"):
        call.bot.updates.clear()
    call.bot.webhook = Webhook()
    call.bot.hurry.set()
    call.bot.updates.wake()
    call.world.changed()
    return True


def get_webhook_info(call: Call) -> Answer:
    """Say where updates are pushed to and how that goes."""
    return call.bot.webhook_record


def set_my_commands(call: Call) -> Answer:
    """Change the list of commands that people are shown."""
    listed = call.arguments.document("commands", "commands") or []
    if not isinstance(listed, list):
        raise bad_request("expected an Array of BotCommand")
    commands = [_command(each) for each in listed]
    if len(commands) > COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    key = _scope(call)
    if commands:
        call.bot.commands[key] = commands
    else:
        call.bot.commands.pop(key, None)
    call.world.changed()
    return True


def _command(said: Any) -> dict[str, str]:
    if not isinstance(said, dict):
        raise bad_request("can't parse BotCommand: expected an Object")
    for name in ("command", "description"):
        if not isinstance(said.get(name), str):
            raise bad_request(f"can't parse BotCommand: Can't find field \"{name}\"")
    name, description = said["command"].removeprefix("/"), said["description"].strip()
    if not name:
        raise bad_request("command must be non-empty")
    if len(name) > 32:
        raise bad_request("command length must not exceed 32")
    if not description:
        raise bad_request("command description must be non-empty")
    if length(description) > 256:
        raise bad_request("command description length must not exceed 256")
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise bad_request("BOT_COMMAND_INVALID")
    return {"command": name, "description": description}


def _scope(call: Call) -> tuple[str, str]:
    said = call.arguments.document("scope", "BotCommandScope") or {"type": "default"}
    if not isinstance(said, dict):
        raise bad_request("botCommandScope must be an Object")
    if said.get("type") not in SCOPES:
        raise bad_request("can't parse BotCommandScope: unsupported type specified")
    if said["type"] in ("chat", "chat_administrators", "chat_member"):
        call.world.chat(call.bot, str(said.get("chat_id", "")))
    return json.dumps(said, sort_keys=True), call.arguments.text("language_code")


def get_my_commands(call: Call) -> Answer:
    """Return the commands of one scope and language."""
    return call.bot.commands.get(_scope(call), Commands())


def delete_my_commands(call: Call) -> Answer:
    """Forget the commands of one scope and language."""
    call.bot.commands.pop(_scope(call), None)
    call.world.changed()
    return True


def log_out(call: Call) -> Answer:
    """Leave this server for one's own; the token is worth nothing here for ten minutes."""
    call.bot.logged_out_until = call.world.clock.now() + LOGGED_OUT_SECONDS
    call.bot.updates.end("terminated by setWebhook request")
    return True


def close(call: Call) -> Answer:
    """End what this server does for the bot, until it is asked again."""
    call.bot.updates.end("terminated by other getUpdates request; make sure that only one bot instance is running")
    return True


METHODS: dict[str, Method] = {
    "getMe": get_me,
    "getUpdates": get_updates,
    "setWebhook": set_webhook,
    "deleteWebhook": delete_webhook,
    "getWebhookInfo": get_webhook_info,
    "setMyCommands": set_my_commands,
    "getMyCommands": get_my_commands,
    "deleteMyCommands": delete_my_commands,
    "logOut": log_out,
    "close": close,
}
