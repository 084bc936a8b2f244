"""Updates that Telegram pushes: the address that it is told, the secret that proves it, and what it says of both."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

import msgspec

from halo_kernel import Account, Door, Exchange, Host, Route, WrongCredentials

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


@dataclass
class Webhooks:
    """The accounts that are pushed to, while their channel runs."""

    host: Host
    _open: dict[str, tuple[Intake, str]] = field(default_factory=dict[str, tuple[Intake, str]])

    async def run(self, account: Account, door: Door, bot: Bot, intake: Intake, token: str) -> None:
        """Have an account pushed to until cancelled, and look at what Telegram says of it: no such look receives."""
        secret = _secret(token)
        self._open[account.id] = intake, secret
        try:
            await self._listen(account, bot, secret, door)
        finally:
            if self._open.get(account.id, (None,))[0] is intake:
                del self._open[account.id]

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
        intake, secret = self._open.get(exchange.params["account"], (None, ""))
        given = exchange.raw.headers.get(HEADER, "")
        if intake is None or not hmac.compare_digest(given.encode(), secret.encode()):
            raise WrongCredentials("this is not the secret of an account that is pushed to")
        await intake.take(await exchange.raw.body())
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
