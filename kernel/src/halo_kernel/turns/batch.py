"""One batch of tool calls, run in order: checked, started, finished, each a fact before the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import hookspecs
from ..contracts import Session, Tool
from ..errors import HaloError
from ..journal import append
from ..log import logger
from ..records import (
    MALFORMED,
    Access,
    Body,
    Delta,
    Denial,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    ToolSpec,
    ToolStarted,
)
from ..records.storable import storable_text
from ..repair import INTERRUPTED, NOT_RUN
from .cancel import CancelToken, Stopped, run_stoppable
from .desk import Desk

_GRACE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class RunningCall:
    """A tool call that passed every check; see `contracts.Call`."""

    id: str
    tool: ToolSpec
    arguments: Mapping[str, object]
    session: Session
    turn: str
    access: Access
    cancel: CancelToken
    desk: Desk

    def progress(self, text: str) -> None:
        """Show followers a line about this call; it is not stored."""
        session = self.session.info.id
        delta = Delta(session=session, turn=self.turn, reply=self.id, offset=0, text=storable_text(text), thinking=True)
        self.desk.feed.publish_delta(delta)


async def run_batch(
    desk: Desk, calls: Sequence[ToolCall], tools: Mapping[str, Tool], *, turn: str, access: Access, token: CancelToken
) -> None:
    """Run `calls` in order and journal every start and result. Raises `Stopped` after the rest is marked as not run."""
    pending: list[Body] = []
    for call in calls:
        if token.requested:
            pending.append(_finished(call, "not_run", NOT_RUN))
            continue
        tool = tools.get(call.name)
        refusal = await _refusal(desk, call, tool, turn, access, token)
        if refusal is not None or tool is None:
            pending.append(refusal or _unknown(call, tools))
            continue
        pending.append(ToolStarted(call=call.id, name=call.name, replay_safe=tool.spec.replay_safe))
        await _commit(desk, pending, turn)
        pending = [await _run(desk, _running(desk, call, tool, turn, access, token), tool)]
    await _commit(desk, pending, turn)
    token.check()


async def _refusal(
    desk: Desk, call: ToolCall, tool: Tool | None, turn: str, access: Access, token: CancelToken
) -> ToolFinished | None:
    if tool is None:
        return None
    if MALFORMED in call.arguments:
        text = f"Error: the arguments are not a JSON object: {str(call.arguments[MALFORMED])[:500]}"
        return _finished(call, "error", text)
    running = _running(desk, call, tool, turn, access, token)
    denial: Denial | None = await desk.hooks.guard(hookspecs.authorize_tool, call=running)
    if token.requested:  # meanwhile
        return _finished(call, "not_run", NOT_RUN)
    return None if denial is None else _finished(call, "denied", f"Refused: {denial.reason}")


def _unknown(call: ToolCall, tools: Mapping[str, Tool]) -> ToolFinished:
    names = ", ".join(tools) or "none"
    return _finished(call, "error", f'Error: unknown tool "{call.name}". Available: {names}.')


def _running(desk: Desk, call: ToolCall, tool: Tool, turn: str, access: Access, token: CancelToken) -> RunningCall:
    return RunningCall(
        id=call.id,
        tool=tool.spec,
        arguments=call.arguments,
        session=desk.session,
        turn=turn,
        access=access,
        cancel=token,
        desk=desk,
    )


async def _run(desk: Desk, call: RunningCall, tool: Tool) -> ToolFinished:
    started = desk.clock.monotonic()
    outcome: ToolOutcome = "ok"
    try:
        work = run_stoppable(tool.run(call), call.cancel, name=f"tool {call.tool.name}", grace=_GRACE_SECONDS)
        text = _text(call.tool.name, await work)
    except Stopped:
        outcome, text = "interrupted", INTERRUPTED
    except HaloError as error:
        outcome, text = "error", f"Error: {error.message}"
    except Exception as error:
        outcome, text = "error", f"Error: {type(error).__name__}: {error}"
        logger("turns").warning("tool failed", tool=call.tool.name, session=call.session.info.id, exc_info=True)
    ms = round((desk.clock.monotonic() - started) * 1000)
    return ToolFinished(
        call=call.id,
        name=call.tool.name,
        outcome=outcome,
        text=cap(text, desk.limits.result_chars),
        ms=ms,
    )


def _text(name: str, answer: object) -> str:
    if not isinstance(answer, str):
        raise TypeError(f"tool {name} answered with {type(answer).__name__}, not text")
    return answer


def _finished(call: ToolCall, outcome: ToolOutcome, text: str) -> ToolFinished:
    return ToolFinished(call=call.id, name=call.name, outcome=outcome, text=text)


def cap(text: str, limit: int) -> str:
    """Return `text`, its head kept and the cut named when it is longer than `limit` characters."""
    text = storable_text(text)
    if len(text) <= limit:
        return text
    note = f"[Content truncated: {len(text)} chars total, showing first {limit}. Re-run with narrower scope.]"
    return f"{text[:limit]}\n{note}"


async def _commit(desk: Desk, bodies: Sequence[Body], turn: str) -> None:
    if not bodies:
        return
    session, at = desk.session.info.id, desk.clock.now()

    for event in await desk.commit(lambda tx: append(tx, session, bodies, at=at, turn=turn)):
        if isinstance(event.body, ToolFinished):
            desk.hooks.notify(hookspecs.tool_finished, session=desk.session.info, event=event)
