"""What a server does beside the calls: settles what others left, and lets turns go on when there is room again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from .books import Books
from .state import let_go_on

_SECONDS = 30.0
WHY = "there is room in the budget again"


@dataclass
class Watch:
    """The service. It looks at the start, whenever a call is settled or a budget raised, and every 30 seconds."""

    books: Books
    name: str = "budgets"

    async def run(self) -> None:
        """Work until cancelled."""
        day = ""
        while True:
            self.books.room.clear()
            if self.books.settings.budgets:
                await self.books.settle_left()
                await let_go_on(self.books, WHY)
                if day != self.books.today:
                    day = self.books.today
                    await self.books.forget_old()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.books.room.wait(), _SECONDS)
