"""Updates pushed to a bot's own server: one at a time, in order, again until it takes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx

from .arguments import Arguments
from .bots import Bot
from .world import World

LONGEST_WAIT = 600.0
Reply = Callable[[Bot, str, Arguments], Awaitable[Any]]


async def push_updates(world: World, bot: Bot, reply: Reply) -> None:
    """Push a bot's updates, for as long as it exists; `reply` plays a method that an answer names."""
    while not bot.webhook.url:  # a client takes a while to make, and most bots poll
        bot.updates.arrived.clear()
        await bot.updates.arrived.wait()
    async with httpx.AsyncClient(trust_env=False) as client:
        failures = 0
        while True:
            updates, hook = bot.updates, bot.webhook
            if not hook.url or not (updates.again or updates.pending):
                updates.arrived.clear()
                await updates.arrived.wait()
                continue
            update = (updates.again or updates.pending)[0]
            error, answer = await _push(world, client, bot, update)
            if bot.webhook is not hook:
                failures = 0
            elif error:
                hook.error_date, hook.error = world.now, error
                failures += 1
                await _wait(world, bot, failures)
            else:
                failures = 0
                updates.taken(update)
                await _reply(bot, answer, reply)


async def _push(world: World, client: httpx.AsyncClient, bot: Bot, update: dict[str, Any]) -> tuple[str, bytes]:
    hook, headers = bot.webhook, {"content-type": "application/json"}
    fault = world.faults.take("push", bot.id)
    if fault and fault.kind == "delay":
        await asyncio.sleep(fault.seconds)
    if fault and fault.kind == "lost_request":
        return _pushed(world, bot, update, 0, "Connection reset by peer"), b""
    if hook.secret:
        headers["X-Telegram-Bot-Api-Secret-Token"] = hook.secret
    body, answer, status = json.dumps(update).encode(), b"", 0
    try:
        response = await client.post(hook.url, content=body, headers=headers, timeout=world.rules.webhook_patience)
        answer, status = response.content, response.status_code
        error = "" if response.is_success else f"Wrong response from the webhook: {status} {response.reason_phrase}"
    except httpx.ConnectError:
        error = "Connection refused"
    except httpx.TimeoutException:
        error = "Read timeout expired"
    except httpx.HTTPError:
        error = "Webhook connection closed"
    if fault and fault.kind == "lost_answer":
        error = "Connection reset by peer"
    return _pushed(world, bot, update, status, error), answer


def _pushed(world: World, bot: Bot, update: dict[str, Any], status: int, error: str) -> str:
    world.pushes.append({"bot": bot.id, "update_id": update["update_id"], "status": status, "error": error})
    world.changed()
    return error


async def _wait(world: World, bot: Bot, failures: int) -> None:
    bot.hurry.clear()
    with suppress(TimeoutError):
        await asyncio.wait_for(bot.hurry.wait(), min(world.rules.webhook_backoff * 2 ** (failures - 1), LONGEST_WAIT))


async def _reply(bot: Bot, answer: bytes, reply: Reply) -> None:
    """Play the method that a webhook's answer names, if it does."""
    try:
        said = json.loads(answer)
    except ValueError:
        return
    if isinstance(said, dict) and isinstance(method := said.pop("method", None), str):
        values = {name: each if isinstance(each, str) else json.dumps(each) for name, each in said.items()}
        await reply(bot, method, Arguments(values))
