"""One batch of tool calls, run in order: checked, started, finished, each a fact before the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from .. import hookspecs, records
from ..contracts import Call, Tool, Turn, Tx
from ..errors import HaloError
from ..hooks import checked
from ..log import logger
from ..questions import Asker, Paused
from ..records.storable import storable_text
from ..repair import INTERRUPTED, NOT_RUN
from ..scopes import Scope
from .cancel import CancelToken, Stopped, run_stoppable
from .desk import Desk

_GRACE_SECONDS = 2.0
Answers = dict[tuple[str, Asker], records.Answer]


@dataclass(frozen=True, kw_only=True)
class RunningCall(Call):
    """A tool call that passed every check."""

    desk: Desk
    questions: list[records.Question] = field(default_factory=list[records.Question])

    def progress(self, text: str) -> None:
        """See `contracts.Call.progress`."""
        session, text = self.session.info.id, storable_text(text)
        delta = records.Delta(session=session, turn=self.turn.id, reply=self.id, offset=0, text=text, thinking=True)
        self.desk.place.feed.publish_delta(delta)

    def ask(self, question: records.Question) -> NoReturn:
        """See `contracts.Call.ask`; the question counts even if the tool swallows what is raised here."""
        self.questions.append(question)
        raise Paused(question, "tool")


class Batch:
    """Runs the calls of one turn's answers with its tools, at its level."""

    def __init__(self, desk: Desk, tools: Mapping[str, Tool], access: records.Access, token: CancelToken) -> None:
        self._desk = desk
        self._tools = tools
        self._access: records.Access = access
        self._token = token
        self._done: list[records.Body] = []

    async def run(self, turn: Turn, calls: Sequence[records.ToolCall], answers: Answers) -> None:
        """Run `calls` in order and journal every start and result; `answers` are those that people gave meanwhile.

        Raises `Stopped` after the rest is marked as not run, and `Paused` at a call that has to wait for a person:
        those before it have their results, it and all after it wait.
        """
        try:
            for call in calls:
                result = await self._result(turn, call, answers)
                self._done.append(result)
        except Paused:
            if self._done:
                await self._commit()
            raise
        await self._commit()
        if self._token.requested:
            raise Stopped

    async def _result(self, turn: Turn, call: records.ToolCall, answers: Answers) -> records.ToolFinished:
        tool = self._tools.get(call.name)
        if self._token.requested:
            return _finished(call, "not_run", NOT_RUN)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return _finished(call, "error", f'Error: unknown tool "{call.name}". Available: {names}.')
        if records.MALFORMED in call.arguments:
            text = f"Error: the arguments are not a JSON object: {str(call.arguments[records.MALFORMED])[:500]}"
            return _finished(call, "error", text)
        running = RunningCall(
            id=call.id,
            tool=tool.spec,
            arguments=call.arguments,
            session=self._desk.session,
            turn=turn,
            access=self._access,
            cancel=self._token,
            desk=self._desk,
            scope=Scope(f"call {call.id}", parent=self._desk.session.scope),
            approval=answers.get((call.id, "guard")),
            answer=answers.get((call.id, "tool")),
        )
        try:
            return await self._refusal(call, running) or await self._finish(call, running, tool)
        finally:
            await running.scope.close()

    async def _finish(self, call: records.ToolCall, running: RunningCall, tool: Tool) -> records.ToolFinished:
        place = self._desk.place
        await self._commit(records.ToolStarted(call=call.id, name=call.name, replay_safe=tool.spec.replay_safe))
        started = place.clock.monotonic()
        outcome, text = await self._outcome(running, tool)
        if running.questions and not self._token.requested:
            raise Paused(running.questions[-1], "tool", call)
        ms, text = round((place.clock.monotonic() - started) * 1000), cap(place.mask(text), place.result_chars)
        return records.ToolFinished(call=call.id, name=call.name, outcome=outcome, text=text, ms=ms)

    async def _refusal(self, call: records.ToolCall, running: RunningCall) -> records.ToolFinished | None:
        """Return why a call does not run, if it does not. Raises `Paused` when a person must be asked first."""
        approval = running.approval
        if approval is not None and not approval.approved:
            return _finished(call, "denied", f"Refused by {approval.by or 'nobody'}: {approval.text}")
        verdict = await self._desk.place.hooks.guard(hookspecs.authorize_tool, call=running, session=running.session)
        if self._token.requested:  # meanwhile
            return _finished(call, "not_run", NOT_RUN)
        if isinstance(verdict, records.Denial):
            return _finished(call, "denied", self._desk.place.mask(f"Refused: {verdict.reason}"))
        if verdict is not None and approval is None:
            raise Paused(verdict, "guard", call)
        return None

    async def _outcome(self, call: RunningCall, tool: Tool) -> tuple[records.ToolOutcome, str]:
        try:
            work = run_stoppable(tool.run(call), self._token, name=f"tool {call.tool.name}", grace=_GRACE_SECONDS)
            return "ok", str(checked(await work, str))
        except Stopped:
            return "interrupted", INTERRUPTED
        except Paused:
            return "ok", ""
        except HaloError as error:
            return "error", f"Error: {error.message}" + (f" — {error.advice}" if error.advice else "")
        except Exception as error:
            logger("turns").warning("tool failed", tool=call.tool.name, session=call.session.info.id, exc_info=True)
            return "error", f"Error: {type(error).__name__}: {error}"

    async def _commit(self, *more: records.Body) -> None:
        """Journal the results so far, and `more`."""
        bodies, self._done = [*self._done, *more], []
        desk, running = self._desk, (self._desk.place.boot, self._desk.session.info.id)

        def write(tx: Tx) -> Sequence[records.Body]:
            # a turn that was paused runs again, in this process; until now another crash would find it waiting
            tx.execute("UPDATE runs SET waiting = 0, boot = ? WHERE session = ? AND waiting = 1", running)
            return bodies

        for event in await desk.commit(write):
            if isinstance(event.body, records.ToolFinished):
                desk.place.hooks.notify(hookspecs.tool_finished, session=desk.session.info, event=event)


def _finished(call: records.ToolCall, outcome: records.ToolOutcome, text: str) -> records.ToolFinished:
    return records.ToolFinished(call=call.id, name=call.name, outcome=outcome, text=text)


def cap(text: str, limit: int) -> str:
    """Return `text`, its head kept and the cut named when it is longer than `limit` characters."""
    text = storable_text(text)
    if len(text) <= limit:
        return text
    note = f"[Content truncated: {len(text)} chars total, showing first {limit}. Re-run with narrower scope.]"
    return f"{text[:limit]}\n{note}"
