"""The bots of a server: one client an account, for all that the server says by itself."""

from __future__ import annotations

from halo_kernel import Account, HaloError, Host, NotFound

from .bot import Bot
from .settings import TelegramSettings

TYPE = "telegram"


class NoToken(HaloError):
    """An account has no token."""


class Bots:
    """Clients by account; one whose token or address has changed is replaced."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._open: dict[str, Bot] = {}

    async def of(self, account: Account) -> Bot:
        """Return an account's client. Raises `NoToken`."""
        base, token = self.host.settings.of(TelegramSettings).base_url, await token_of(self.host, account)
        bot = self._open.get(account.id)
        if bot is None or not bot.is_of(base, token):
            self._open[account.id] = Bot(base, token)
            if bot is not None:
                await bot.close()
        return self._open[account.id]

    async def account(self, id: str) -> Account | None:
        """Return an account by its id."""
        return next((each for each in await self.host.accounts.list(TYPE) if each.id == id), None)

    async def close(self) -> None:
        """Close all connections."""
        while self._open:
            await self._open.popitem()[1].close()


async def token_of(host: Host, account: Account) -> str:
    """Return an account's token, its own or else that of the settings. Raises `NoToken`."""
    try:
        own = (await host.accounts.secrets(TYPE, account.id)).get("token")
    except NotFound:
        own = None
    token = own or host.settings.of(TelegramSettings).token
    if token is None:
        raise NoToken(f"the account {account.id} has no token", advice="give it one that BotFather made")
    return token.reveal().strip()
