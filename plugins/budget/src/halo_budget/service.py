"""What a server does beside the calls: settles what others left, and lets turns go on when there is room again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .books import Books
from .state import let_go_on

_SECONDS = 30.0
_PAUSE = 0.2
WHY = "there is room in the budget again"


@dataclass
class Watch:
    """The service. It looks at the start and every 30 seconds, and for who waits whenever a call was settled, too."""

    books: Books
    name: str = "budgets"

    async def run(self) -> None:
        """Work until cancelled."""
        loop, day = asyncio.get_running_loop(), ""
        while True:
            if self.books.is_used or self.books.settings.budgets:
                await self.books.settle_left()
                await let_go_on(self.books, WHY)
                if day != self.books.today:
                    day = self.books.today
                    await self.books.forget_old()
            end = loop.time() + _SECONDS
            while await self._is_stirred(end - loop.time()):
                await let_go_on(self.books, WHY)
                await asyncio.sleep(_PAUSE)

    async def _is_stirred(self, seconds: float) -> bool:
        """Wait until a call is settled, at most so long; tell whether one was."""
        try:
            await asyncio.wait_for(self.books.room.wait(), seconds)
        except TimeoutError:
            return False
        self.books.room.clear()
        return True
