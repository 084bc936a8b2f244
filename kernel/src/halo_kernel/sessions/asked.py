"""The questions of all workspaces, for whoever shows and answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ..questions import answer, listed
from ..records import Principal, QuestionInfo
from .seat import Seat


class Questions:
    """See `contracts.Questions`. `seat_of` opens a workspace by id, `wake` lets a session go on."""

    def __init__(
        self, seat_of: Callable[[str], Awaitable[Seat]], wake: Callable[[Seat, str], Awaitable[object]]
    ) -> None:
        self._seat_of = seat_of
        self._wake = wake

    async def list(
        self, *, workspace: str, principal: Principal, session: str | None = None, everything: bool = False
    ) -> Sequence[QuestionInfo]:
        """See `contracts.Questions.list`."""
        seat = await self._seat_of(workspace)
        return await seat.database.read(lambda tx: listed(tx, principal, session=session, everything=everything))

    async def answer(
        self, question: int, *, workspace: str, principal: Principal, approved: bool, text: str = ""
    ) -> QuestionInfo:
        """See `contracts.Questions.answer`."""
        seat = await self._seat_of(workspace)
        now = seat.clock.now()
        info, events = await seat.database.write(
            lambda tx: answer(tx, question, principal, approved=approved, text=text, at=now)
        )
        seat.tell(events)
        await self._wake(seat, info.session)
        return info
