"""The channel: how an account is made and tried, and by which transport it receives."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from halo_kernel import Account, AccountField, BadInput, DeliveryFailed, Door, Host

from .bot import Bot, BotError, Refused
from .bots import TYPE, token_of
from .commands import Menu
from .intake import Intake
from .mentions import Me
from .polling import SILENCE, Polling, in_words
from .settings import TelegramSettings
from .updates import Person
from .webhook import Webhooks

_FIELDS = (
    AccountField(
        name="token",
        label="Bot token",
        help="In Telegram, write /newbot to @BotFather: it gives a token such as 123456:ABC-DEF.",
        secret=True,
    ),
    AccountField(
        name="groups",
        label="In groups, listen to",
        help="mention: what names the bot, replies to it or is its command; all: everything it hears; off: nothing.",
        optional=True,
    ),
    AccountField(
        name="webhook_url",
        label="Public https address of this server",
        help="Empty: the server asks Telegram (long polling), and needs no address. Else Telegram pushes to it.",
        optional=True,
    ),
)
_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{1,100}")
_RULES = ("mention", "all", "off")


class Telegram:
    """Receives for each account by long polling, or where its `webhook_url` says so, by being pushed to."""

    type = TYPE
    silence: float | None = SILENCE
    fields: Sequence[AccountField] = _FIELDS

    def __init__(self, host: Host, webhooks: Webhooks, menu: Menu) -> None:
        self._host, self._webhooks, self._menu = host, webhooks, menu

    async def run(self, account: Account, door: Door) -> None:
        """Receive for one account until cancelled, over connections of its own."""
        settings, token = self._host.settings.of(TelegramSettings), await token_of(self._host, account)
        bot = Bot(settings.base_url, token)
        try:
            me, known = await self._met(account, bot, door)
            intake = Intake(host=self._host, account=account, door=door, bot=bot, me=me, commands=known)
            if account.config.get("webhook_url"):
                await self._webhooks.run(account, door, bot, intake, token)
            else:
                polling = Polling(host=self._host, door=door, bot=bot, intake=intake, seconds=settings.poll_seconds)
                await polling.run()
        finally:
            await bot.close()

    async def _met(self, account: Account, bot: Bot, door: Door) -> tuple[Me, Collection[str]]:
        """Return who the bot is, and its commands, as soon as Telegram says it."""
        wait = 1.0
        while True:
            try:
                return Me.of(await bot.call("getMe", Person)), await self._menu.learn(account.id, bot)
            except BotError as error:
                door.failed(in_words(error))
                said = error.retry_after if isinstance(error, Refused) else 0
                await self._host.clock.sleep(max(wait, float(said)))
                wait = min(2 * wait, 60.0)

    async def probe(self, account: Account, secrets: Mapping[str, str]) -> Account:
        """See `GuidedChannel.probe`."""
        rule, url = str(account.config.get("groups") or ""), str(account.config.get("webhook_url") or "")
        if rule and rule not in _RULES:
            raise BadInput(f"groups is one of {', '.join(_RULES)}", field="groups")
        base = self._host.settings.of(TelegramSettings).base_url
        if url and not url.startswith("https://") and base.startswith("https://"):
            raise BadInput("webhook_url begins with https://, for Telegram pushes to nothing else", field="webhook_url")
        token, advice = secrets.get("token", "").strip(), "copy the whole token that BotFather gave"
        if not _TOKEN.fullmatch(token):
            raise BadInput("this is no token: one is such as 123456:ABC-DEF", field="token", advice=advice)
        bot = Bot(base, token)
        try:
            person = await bot.call("getMe", Person)
        except BotError as error:
            if isinstance(error, Refused) and error.code in (401, 404):
                raise BadInput(f"Telegram does not know this token: {error}", field="token", advice=advice) from None
            raise DeliveryFailed(str(error), advice="see whether this machine reaches Telegram") from None
        finally:
            await bot.close()
        config = {**account.config, "username": person.username}
        return replace(account, id=person.username.lower(), label=f"@{person.username}", config=config)
