"""`continue_task`: work that a message interrupted is taken up again after the answer to that message."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

from halo_kernel import Session, TurnEnded

from .arguments import Arguments
from .caller import Caller

KICK = (
    "[System] You called continue_task: go on now with the work that was interrupted, from the conversation as it"
    " stands. Do not start over."
)
RESET = (
    "[System] This interrupted you before the work that you asked for with continue_task was taken up; call it again if"
    " that work is still to be done."
)


async def continue_task(caller: Caller, given: Arguments) -> Mapping[str, object]:
    """Arm the turn, if it began after an interrupt, so that another one follows it."""
    call = caller.call
    if call.cancel.requested:
        return {"code": 1, "status": "no_turn"}
    if not await _is_after_interrupt(call.session, call.turn.id):
        return {"status": "not_interrupted"}
    return {"status": "set"}


async def _is_after_interrupt(session: Session, turn: str) -> bool:
    """Tell whether the turn before `turn` was cut by a message; a crash is no interrupt, recovery has its own say."""
    last = None
    async with aclosing(session.events()) as updates:
        async for update in updates:
            if update.event and update.event.turn == turn:
                break
            if update.event and isinstance(update.event.body, TurnEnded):
                last = update.event.body
    return last is not None and last.outcome in ("yielded", "interrupted") and last.kind != "crash"
