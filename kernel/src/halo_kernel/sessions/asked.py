"""The questions of all workspaces, for whoever shows and answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ..questions import answer, listed
from ..records import Principal, QuestionInfo
from .seat import Seat


class Questions:
    """The questions of this home, filtered by principal. `seat_of` opens a workspace by id."""

    def __init__(self, seat_of: Callable[[str], Awaitable[Seat]]) -> None:
        self._seat_of = seat_of

    async def list(
        self, *, workspace: str, principal: Principal, session: str | None = None, everything: bool = False
    ) -> Sequence[QuestionInfo]:
        """Return the open questions of the principal's sessions, oldest first; with `everything` settled ones too."""
        seat = await self._seat_of(workspace)
        return await seat.database.read(lambda tx: listed(tx, principal, session=session, everything=everything))

    async def answer(
        self, question: int, *, workspace: str, principal: Principal, approved: bool, text: str = ""
    ) -> QuestionInfo:
        """Settle a question and let its session go on.

        Raises `NotFound`, `Forbidden` below the call's level, `Conflict` for a question that is settled or over.
        """
        seat = await self._seat_of(workspace)
        settle = partial(answer, number=question, principal=principal, approved=approved, text=text)
        info, events = await seat.database.write(partial(settle, at=seat.clock.now()))
        seat.tell(events)
        await seat.registry.wake(seat, info.session)
        return info
