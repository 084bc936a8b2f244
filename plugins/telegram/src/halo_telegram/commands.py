"""Commands: `/start`, with which Telegram begins a chat, and the list that its apps offer."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from halo_kernel import CommandResult, CommandSpec, Incoming, Session

from .bot import Bot, BotError
from .bots import TYPE, Bots, NoToken
from .words import say

START = CommandSpec(name="start", summary="Begins a chat.")
_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MOST = 100
_SUMMARY = 256
"""Source: https://core.telegram.org/bots/api#botcommand"""


class _Listed(msgspec.Struct):
    command: str
    description: str


@dataclass
class Menu:
    """The commands that Telegram's apps offer for each bot: those of the session that was opened last."""

    bots: Bots
    _offered: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    async def learn(self, account: str, bot: Bot) -> Collection[str]:
        """Return their names, as they are now and will be; a server that has just begun asks Telegram."""
        offered = self._offered.setdefault(account, {})
        if not offered:
            found = await bot.call("getMyCommands", list[_Listed])
            offered.update({each.command: each.description for each in found})
        return offered

    async def offer(self, session: Session) -> None:
        """Tell Telegram the commands of a session, where they are others than before."""
        id = account_of(session.info.principal)
        account = await self.bots.account(id)
        found = {each.name: each.summary[:_SUMMARY] for each in await session.commands() if _NAME.fullmatch(each.name)}
        offered = self._offered.setdefault(id, {})
        if account is None or found == offered:
            return
        offered.clear()
        offered.update(found)
        listed = [{"command": name, "description": summary} for name, summary in found.items()][:_MOST]
        try:
            bot = await self.bots.of(account)
            await bot.call("setMyCommands", msgspec.Raw, {"commands": listed})
        except (BotError, NoToken) as error:
            self.bots.host.log.warning("the commands are not listed", account=id, error=str(error))


@dataclass
class Start:
    """Greets, and has Telegram list the commands: no turn opens the session before."""

    menu: Menu
    spec: CommandSpec = START

    async def run(self, verb: str, arguments: str, message: Incoming, session: Session) -> CommandResult:
        """See `Command`."""
        bots = self.menu.bots
        bots.host.spawn(f"{TYPE}.commands", self.menu.offer(session))
        account = await bots.account(account_of(message.route))
        return CommandResult(text=say(account.language if account else "en", "start"))


def account_of(name: str) -> str:
    """Return the account in a route or in a chat's name, '' where there is none."""
    kind, _, rest = name.partition(":")
    return rest.partition(":")[0] if kind == TYPE else ""
