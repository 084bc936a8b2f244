"""One batch of tool calls, run in order: checked, started, finished, each a fact before the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from .. import hookspecs
from ..contracts import Session, Tool, Tx
from ..errors import HaloError
from ..journal import append
from ..log import logger
from ..questions import Asker, Paused, Pending
from ..records import (
    MALFORMED,
    Access,
    Answer,
    Body,
    Delta,
    Denial,
    Event,
    Question,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    ToolSpec,
    ToolStarted,
)
from ..records.storable import storable_text
from ..repair import INTERRUPTED, NOT_RUN
from ..scopes import Scope
from .cancel import CancelToken, Stopped, run_stoppable
from .desk import Desk

_GRACE_SECONDS = 2.0
_NOTHING: Mapping[tuple[str, Asker], Answer] = {}


@dataclass(kw_only=True)
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
    scope: Scope
    approval: Answer | None = None
    answer: Answer | None = None
    question: Question | None = None

    def progress(self, text: str) -> None:
        """Show followers a line about this call; it is not stored."""
        session = self.session.info.id
        delta = Delta(session=session, turn=self.turn, reply=self.id, offset=0, text=storable_text(text), thinking=True)
        self.desk.place.feed.publish_delta(delta)

    def ask(self, question: Question) -> NoReturn:
        """See `contracts.Call.ask`; the question counts even if the tool swallows what is raised here."""
        self.question = question
        raise Paused(Pending(question=question, asker="tool", call=None))


class Batch:
    """Runs the calls of one turn's answers with its tools, at its level."""

    def __init__(self, desk: Desk, tools: Mapping[str, Tool], *, turn: str, access: Access, token: CancelToken) -> None:
        self._desk = desk
        self._tools = tools
        self._turn = turn
        self._access: Access = access
        self._token = token

    async def run(self, calls: Sequence[ToolCall], answers: Mapping[tuple[str, Asker], Answer] = _NOTHING) -> None:
        """Run `calls` in order and journal every start and result; `answers` are those that people gave meanwhile.

        Raises `Stopped` after the rest is marked as not run, and `Paused` at a call that has to wait for a person:
        those before it have their results, it and all after it wait.
        """
        done: list[Body] = []
        for call in calls:
            if self._token.requested:
                done.append(_finished(call, "not_run", NOT_RUN))
                continue
            tool = self._tools.get(call.name)
            if tool is None:
                done.append(self._unknown(call))
                continue
            running = self._running(call, tool, answers)
            verdict = await self._verdict(call, running)
            if isinstance(verdict, Question):
                await self._wait(done, Pending(question=verdict, asker="guard", call=call))
            if isinstance(verdict, ToolFinished):
                done.append(verdict)
                continue
            await self._commit([*done, ToolStarted(call=call.id, name=call.name, replay_safe=tool.spec.replay_safe)])
            done = [await self._finish(running, tool)]
            if running.question is not None and not self._token.requested:
                await self._wait([], Pending(question=running.question, asker="tool", call=call))
        await self._commit(done)
        self._token.check()

    async def _wait(self, done: Sequence[Body], pending: Pending) -> NoReturn:
        await self._commit(done)
        raise Paused(pending)

    async def _verdict(self, call: ToolCall, running: RunningCall) -> ToolFinished | Question | None:
        """Return what keeps a call from running: its result, or the question that must be answered first."""
        if MALFORMED in call.arguments:
            text = f"Error: the arguments are not a JSON object: {str(call.arguments[MALFORMED])[:500]}"
            return _finished(call, "error", text)
        approval = running.approval
        if approval is not None and not approval.approved:
            return _finished(call, "denied", f"Refused by {approval.by or 'nobody'}: {approval.text}")
        verdict = await self._desk.place.hooks.guard(hookspecs.authorize_tool, call=running, session=running.session)
        if self._token.requested:  # meanwhile
            return _finished(call, "not_run", NOT_RUN)
        if isinstance(verdict, Denial):
            return _finished(call, "denied", f"Refused: {verdict.reason}")
        return verdict if approval is None else None

    def _unknown(self, call: ToolCall) -> ToolFinished:
        names = ", ".join(self._tools) or "none"
        return _finished(call, "error", f'Error: unknown tool "{call.name}". Available: {names}.')

    def _running(self, call: ToolCall, tool: Tool, answers: Mapping[tuple[str, Asker], Answer]) -> RunningCall:
        return RunningCall(
            id=call.id,
            tool=tool.spec,
            arguments=call.arguments,
            session=self._desk.session,
            turn=self._turn,
            access=self._access,
            cancel=self._token,
            desk=self._desk,
            scope=Scope(f"call {call.id}", parent=self._desk.scope),
            approval=answers.get((call.id, "guard")),
            answer=answers.get((call.id, "tool")),
        )

    async def _finish(self, call: RunningCall, tool: Tool) -> ToolFinished:
        place, started = self._desk.place, self._desk.place.clock.monotonic()
        outcome: ToolOutcome = "ok"
        try:
            work = run_stoppable(tool.run(call), call.cancel, name=f"tool {call.tool.name}", grace=_GRACE_SECONDS)
            text = _text(call.tool.name, await work)
        except Stopped:
            outcome, text = "interrupted", INTERRUPTED
        except Paused:
            text = ""
        except HaloError as error:
            outcome, text = "error", f"Error: {error.message}"
        except Exception as error:
            outcome, text = "error", f"Error: {type(error).__name__}: {error}"
            logger("turns").warning("tool failed", tool=call.tool.name, session=call.session.info.id, exc_info=True)
        finally:
            await call.scope.close()
        ms = round((place.clock.monotonic() - started) * 1000)
        text = cap(place.mask(text), place.limits.result_chars)
        return ToolFinished(call=call.id, name=call.tool.name, outcome=outcome, text=text, ms=ms)

    async def _commit(self, bodies: Sequence[Body]) -> None:
        if not bodies:
            return
        desk, turn = self._desk, self._turn
        session, at = desk.session.info.id, desk.place.clock.now()

        def write(tx: Tx) -> tuple[Event, ...]:
            return (*going_on(tx, session, desk.place.boot), *append(tx, session, bodies, at=at, turn=turn))

        for event in await desk.commit(write):
            if isinstance(event.body, ToolFinished):
                desk.place.hooks.notify(hookspecs.tool_finished, session=desk.session.info, event=event)


def going_on(tx: Tx, session: str, boot: str) -> tuple[Event, ...]:
    """Say that a paused turn runs again, in this process; until then another crash finds it waiting."""
    tx.execute("UPDATE runs SET waiting = 0, boot = ? WHERE session = ? AND waiting > 0", (boot, session))
    return ()


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
