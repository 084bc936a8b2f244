"""Updates that Telegram pushes: the address that it is told, the secret that proves it, and what it says of both."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from dataclasses import dataclass, field

import msgspec

from halo_kernel import Account, Conflict, Door, Exchange, Host, Route, WrongCredentials

from .bot import Bot, BotError
from .intake import Intake
from .polling import in_words
from .updates import KINDS

HEADER = "x-telegram-bot-api-secret-token"
_LOOK_SECONDS = 40.0
_AT_ONCE = 1  # one at a time, so that what somebody says comes in its order


class _Info(msgspec.Struct):
    """Source: https://core.telegram.org/bots/api#webhookinfo"""

    url: str = ""
    last_error_date: int = 0
    last_error_message: str = ""
    pending_update_count: int = 0


@dataclass(eq=False)
class _Open:
    """An account that is pushed to, with what is being taken in."""

    intake: Intake
    secret: str
    taking: set[asyncio.Task[int]] = field(default_factory=set["asyncio.Task[int]"])

    async def take(self, raw: bytes) -> None:
        """Take an update in. Raises `Conflict` when the account ends meanwhile."""
        task = asyncio.create_task(self.intake.take(raw))
        self.taking.add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self.taking.discard(task)
        if task.cancelled():
            raise Conflict("the account does not run here any more")
        task.result()

    async def end(self) -> None:
        """End what is being taken in; the platform sends it again."""
        taking = set(self.taking)
        for task in taking:
            task.cancel()
        await asyncio.gather(*taking, return_exceptions=True)


@dataclass
class Webhooks:
    """The accounts that are pushed to, while their channel runs."""

    host: Host
    _open: dict[str, _Open] = field(default_factory=dict[str, _Open])

    async def run(self, account: Account, door: Door, bot: Bot, intake: Intake, token: str) -> None:
        """Have an account pushed to until cancelled, and look at what Telegram says of it: no such look receives."""
        self._open[account.id] = here = _Open(intake, _secret(token))
        try:
            await self._listen(account, bot, here.secret, door)
        finally:
            if self._open.get(account.id) is here:
                del self._open[account.id]
            await here.end()

    async def _listen(self, account: Account, bot: Bot, secret: str, door: Door) -> None:
        url = f"{str(account.config['webhook_url']).rstrip('/')}/api/telegram/{account.id}/updates"
        told = {"url": url, "secret_token": secret, "allowed_updates": KINDS, "max_connections": _AT_ONCE}
        is_set = False
        while True:
            try:
                if not is_set:
                    is_set = await bot.call("setWebhook", bool, told)
                info = await bot.call("getWebhookInfo", _Info)
                is_set = info.url == url
                if is_set and info.last_error_date and info.pending_update_count:
                    door.failed(f"Telegram does not reach {url}: {info.last_error_message}")
                elif is_set:
                    door.heard()
            except BotError as error:
                door.failed(in_words(error))
            await self.host.clock.sleep(_LOOK_SECONDS if is_set else 5.0)

    async def push(self, exchange: Exchange) -> object:
        """Take an update in; anything but 200 has Telegram send it again."""
        here, given = self._open.get(exchange.params["account"]), exchange.raw.headers.get(HEADER, "")
        if here is None or not hmac.compare_digest(given.encode(), here.secret.encode()):
            raise WrongCredentials("this is not the secret of an account that is pushed to")
        await here.take(await exchange.raw.body())
        return {"ok": True}

    def route(self) -> Route:
        """Return where Telegram pushes to."""
        return Route(
            method="POST",
            path="/api/telegram/{account}/updates",
            handler=self.push,
            summary="Take an update of the Telegram account that Telegram pushes",
            auth="signed",  # wrong secrets are not counted: nobody guesses one, and Telegram must not be locked out
        )


def _secret(token: str) -> str:
    """Return the secret of a token's webhook: it changes with the token, and need not be kept."""
    return hmac.new(token.encode(), b"halo-telegram webhook", hashlib.sha256).hexdigest()
