"""What all workspaces ask and owe, for plugins that owe something themselves and for whoever looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from .. import outbox
from ..errors import BadInput
from ..questions import answer, listed
from ..records import Delivery, Owed, Principal, QuestionInfo
from ..records.storable import is_storable
from .seat import Seat

_KEY = 200


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
        settle = partial(answer, number=question, principal=principal, approved=approved, text=seat.mask(text))
        info, events = await seat.database.write(partial(settle, at=seat.clock.now()))
        seat.tell(events)
        await seat.host.sessions.wake(seat, info.session)
        return info


class Outbox:
    """What this home owes to others. `seat_of` opens a workspace by id."""

    def __init__(self, seat_of: Callable[[str], Awaitable[Seat]]) -> None:
        self._seat_of = seat_of

    async def owe(self, owed: Owed, *, workspace: str) -> int:
        """Make a delivery durable and return its number; a key that was seen before gives the first one's.

        Raises `BadInput` naming the field: none of them may be empty.
        """
        for field in ("key", "dispatcher", "target", "text"):
            text = getattr(owed, field)
            if not text or not is_storable(text):
                raise BadInput(f"{field} must be text without U+0000 and surrogates", field=field)
        if len(owed.key) > _KEY:
            raise BadInput(f"key must have at most {_KEY} characters, not {len(owed.key)}", field="key")
        seat = await self._seat_of(workspace)
        await seat.host.workspaces.mark_busy(workspace)
        number = await seat.database.write(partial(outbox.owe, owed=owed, at=seat.clock.now()))
        seat.database.notify("outbox")
        return number

    async def list(
        self, *, workspace: str, session: str | None = None, unsettled: bool = False, limit: int = 100
    ) -> Sequence[Delivery]:
        """Return deliveries, newest first; `unsettled` ones have a part that is neither sent nor given up."""
        seat = await self._seat_of(workspace)
        count = max(1, min(limit, 500))
        return await seat.database.read(lambda tx: outbox.listed(tx, session=session, unsettled=unsettled, limit=count))

    async def retry(self, delivery: int, *, workspace: str) -> Delivery:
        """Send the failed and uncertain parts of a delivery again. Raises `NotFound`, `Conflict` when it has none."""
        seat = await self._seat_of(workspace)
        await seat.host.workspaces.mark_busy(workspace)
        found = await seat.database.write(partial(outbox.retry, number=delivery, at=seat.clock.now()))
        seat.database.notify("outbox")
        return found
