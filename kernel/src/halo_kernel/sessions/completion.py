"""A model call beside the turn, for a plugin: guarded, retried, and accounted for in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..contracts import ModelCall
from ..errors import ModelError
from ..models import Listener
from ..questions import Paused
from ..records import ModelRequest
from ..turns import ask_models, usage_of

if TYPE_CHECKING:
    from .seat import Seat
    from .session import LiveSession


async def complete(seat: Seat, session: LiveSession, request: ModelRequest, *, purpose: str) -> str:
    """See `contracts.Session.complete`. A guard that wants to ask a person refuses: no turn waits here."""
    line = await seat.models.line(session, seat.hooks, request.model)
    wanted = replace(request, model=line[0].model, purpose=purpose, session=session.info.id)
    wish = ModelCall(id="", model=wanted.model, purpose=purpose, request=wanted, session=session, turn="")
    try:
        answer = await ask_models(seat, line, wish, Listener())
    except Paused as pause:
        raise ModelError(f"a person would have to allow this: {pause}", kind="refused") from pause
    await session.write([usage_of(answer, purpose=purpose)])
    return answer.text
