"""A model call beside the turn, for a plugin: guarded, retried, and accounted for in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..errors import ModelError
from ..models import Attempt
from ..questions import Paused
from ..records import ModelRequest, plain_text
from ..turns import ask_models, usage_of

if TYPE_CHECKING:
    from .seat import Seat
    from .session import LiveSession


async def complete(seat: Seat, session: LiveSession, request: ModelRequest, *, purpose: str) -> str:
    """See `contracts.Session.complete`. A guard that wants to ask a person refuses: no turn waits here."""
    line = await seat.models.line(session, seat.hooks, request.model)
    wanted = replace(request, model=line[0].model, purpose=purpose, session=session.info.id)
    try:
        answer = await ask_models(seat, session, line, wanted, lambda attempt, text, thinking: None, _failed)
    except Paused as pause:
        raise ModelError(f"a person would have to allow this: {pause}", kind="refused") from pause
    await session.write([usage_of(answer, purpose=purpose)])
    return plain_text(answer.content)


async def _failed(attempt: Attempt, error: ModelError) -> None:
    """Nothing was shown of a failed attempt, so there is nothing to take back."""
