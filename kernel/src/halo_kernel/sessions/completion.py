"""A model call beside the turn, for a plugin: guarded, retried, and accounted for in the journal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from .. import hookspecs
from ..contracts import ModelCall
from ..errors import ModelError
from ..models import Answer, Attempt, call_model
from ..questions import Paused
from ..records import ModelRequest, plain_text
from ..turns import authorize, usage_of

if TYPE_CHECKING:
    from .seat import Seat
    from .session import LiveSession


async def complete(seat: Seat, session: LiveSession, request: ModelRequest, *, purpose: str) -> str:
    """See `contracts.Session.complete`. A guard that wants to ask a person refuses: no turn waits here."""
    model = request.model or (await seat.models.choose(session.agent))[0].model
    wanted = changed(request, model=model.partition("/")[2], purpose=purpose, session=session.info.id)
    call = ModelCall(id=seat.clock.new_id(64), model=model, purpose=purpose, request=wanted, session=session, turn="")
    try:
        await authorize(seat.hooks, call)
        answer = await _asked(seat, model, wanted)
    except Paused as pause:
        raise ModelError(f"a person would have to allow this: {pause}", kind="refused") from pause
    except ModelError as error:
        seat.hooks.notify(hookspecs.model_finished, call=replace(call, error=error))
        raise
    await session.write([usage_of(answer, model, purpose=purpose)])
    seat.hooks.notify(hookspecs.model_finished, call=replace(call, usage=answer.usage))
    return plain_text(answer.content)


async def _asked(seat: Seat, model: str, request: ModelRequest) -> Answer:
    async def failed(attempt: Attempt, error: ModelError) -> None:
        """Nothing was shown of a failed attempt, so there is nothing to take back."""

    return await call_model(
        seat.models.provider(model),
        request,
        clock=seat.clock,
        idle_timeout=seat.limits.idle_timeout,
        max_attempts=seat.limits.max_attempts,
        on_delta=lambda attempt, text, thinking: None,
        on_failure=failed,
    )
