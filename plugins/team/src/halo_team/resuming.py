"""`continue_task`: work that a message interrupted is taken up again after the answer to that message.

The session's state of this plugin is the turn that is to be followed by another one, or None.
"""

from __future__ import annotations

from collections.abc import Mapping

from halo_kernel import Extension, Incoming, Principal, Session, Turn

from .arguments import Arguments
from .caller import Caller

CAUSE = "continue_task"
KICK = (
    "[System] You called continue_task: go on now with the work that was interrupted, from the conversation as it"
    " stands. Do not start over."
)
RESET = (
    "[System] This interrupted you before you could go on with the work that you called continue_task for; call it"
    " again if that work is still to be done."
)
_EVENT = "team.continue"
_INTERRUPTED = ("yielded", "interrupted")


async def continue_task(caller: Caller, given: Arguments) -> Mapping[str, object]:
    """Arm the turn, if it began after an interrupt, so that another one follows it."""
    call = caller.call
    if call.cancel.requested or caller.info.stopped:
        return {"code": 1, "status": "no_turn"}
    if call.turn.after not in _INTERRUPTED:
        return {"status": "not_interrupted"}
    await call.session.append(_EVENT, {"turn": call.turn.id}, state=call.turn.id)
    return {"status": "set"}


async def follow(turn: Turn, session: Session) -> list[Extension]:
    """Return the message that makes the work go on, when `turn` is armed.

    It is of the kind that a session's messages mostly are, so that what waits is answered together with it.
    """
    if await session.state("team") != turn.id:
        return []
    kind = session.info.principal_kind if session.info.parent is None else "agent"
    sender = Principal(name=CAUSE, kind=kind, access=session.info.access)
    key = f"continue:{turn.id}"
    return [Extension(message=Incoming(text=KICK, key=key, mode="follow_up", principal=sender, cause=CAUSE))]


async def forget(turn: Turn, session: Session) -> str:
    """Disarm the turn before this one; return what to say when a message kept its work from going on, else ''."""
    armed = await session.state("team")
    if armed is None or armed == turn.id:
        return ""
    await session.append(_EVENT, {"turn": None}, state=None)
    return RESET if turn.after in _INTERRUPTED else ""
