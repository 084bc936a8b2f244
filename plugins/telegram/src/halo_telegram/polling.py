"""Long polling: what waits is taken, and the offset moves behind an update when that has been taken in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import msgspec

from halo_kernel import Door, HaloError, Host

from .bot import Bot, BotError, Refused
from .intake import Intake
from .updates import KINDS

_MARGIN = 10.0  # seconds beyond a poll's own after which its connection is given up
_LONGEST = 60.0
SILENCE = 110.0
"""Seconds: two polls of the longest kind may fail, and it is still told within two minutes."""


@dataclass(kw_only=True)
class Polling:
    """Polls for one bot."""

    host: Host
    door: Door
    bot: Bot
    intake: Intake
    seconds: int
    _offset: int = 0
    _failures: int = 0
    _is_sure: bool = False

    async def run(self) -> NoReturn:
        """Poll until cancelled. No offset is kept: what was not confirmed comes again, and its key keeps it single."""
        while True:
            try:
                await self._once()
                self._failures = 0
            except (BotError, HaloError) as error:
                self._failures, self._is_sure = self._failures + 1, False
                self.door.failed(in_words(error))
                self.host.log.warning("polling failed", account=self.intake.account.id, error=in_words(error))
                await self.host.clock.sleep(self._wait(error))

    async def _once(self) -> None:
        if not self._is_sure:  # a webhook of before would keep polls from being answered
            await self.bot.call("deleteWebhook", bool, {"drop_pending_updates": False})
        seconds = self.seconds if self._is_sure else 0  # it is told at once whether polls are answered
        asked = {"offset": self._offset, "timeout": seconds, "allowed_updates": KINDS}
        raws = await self.bot.call("getUpdates", list[msgspec.Raw], asked, seconds=seconds + _MARGIN)
        self._is_sure = True
        self.door.heard()
        for raw in raws:
            self._offset = max(self._offset, await self.intake.take(raw) + 1)

    def _wait(self, error: Exception) -> float:
        """Return for how many seconds nothing is asked: as long as the platform says, else ever longer."""
        said = error.retry_after if isinstance(error, Refused) else 0
        return max(float(said), min(0.5 * 2.0 ** min(self._failures - 1, 16), _LONGEST))


def in_words(error: Exception) -> str:
    """Return what is wrong, and what an operator can do."""
    if isinstance(error, Refused) and error.code == 409:
        return f"another program receives with this bot's token; stop it, or make a new token ({error})"
    if isinstance(error, Refused) and error.code in (401, 404):
        return f"the bot's token is not valid any more; give the account the new one of BotFather ({error})"
    return error.message if isinstance(error, HaloError) else str(error)
