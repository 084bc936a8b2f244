"""The tools of a session, as its model sees them. Each answers JSON: `code` 0 and facts, or 1 and an `error`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from halo_kernel import BadInput, Call, Conflict, Host, NotFound, Session, Tool, ToolSpec

from . import arguments as given
from . import work
from .caller import Caller
from .resuming import continue_task
from .roster import can_delegate

A = TypeVar("A", bound=given.Arguments)
Do = Callable[[Caller, A], Awaitable[work.Facts]]


@dataclass(frozen=True)
class SessionTool(Generic[A]):
    """A tool: its description, the struct of its arguments, and what it does."""

    spec: ToolSpec
    arguments: type[A]
    do: Do[A]
    host: Host

    async def run(self, call: Call) -> str:
        """Check the arguments and do it; a refusal is an answer with code 1. Raises `BadInput` for wrong arguments."""
        checked = given.decode(call.arguments, self.arguments)
        try:
            facts = await self.do(Caller(call, self.host), checked)
        except (BadInput, Conflict, NotFound) as refusal:
            advice = f" — {refusal.advice}" if refusal.advice else ""
            return _json({"code": 1, "error": refusal.message + advice})
        return _json({"code": 0, **facts})


def _json(value: work.Facts) -> str:
    return msgspec.json.encode(value).decode()


def tools_for(session: Session, host: Host) -> Sequence[Tool]:
    """Return a session's tools: those about sessions for an agent with a team, `continue_task` for every one."""
    tool = _Maker(host)
    resume = tool.make("continue_task", CONTINUE, given.Arguments, continue_task)
    if not can_delegate(session.agent):
        return [resume]
    return [
        resume,
        tool.make("start_session", START, given.StartArguments, work.start_session),
        tool.make("session_list", LIST, given.Arguments, work.session_list, safe=True),
        tool.make("query_session", QUERY, given.SendArguments, work.query_session),
        tool.make("interrupt_session", INTERRUPT, given.InterruptArguments, work.interrupt_session),
        tool.make("stop_session", STOP, given.SessionArguments, work.stop_session),
        tool.make("archive_session", ARCHIVE, given.SessionArguments, work.archive_session),
        tool.make("get_session_output", OUTPUT, given.SessionArguments, work.get_session_output, safe=True),
        tool.make("query_agent", AGENT, given.AgentArguments, work.query_agent, safe=True),
    ]


@dataclass(frozen=True)
class _Maker:
    host: Host

    def make(self, name: str, description: str, arguments: type[A], do: Do[A], *, safe: bool = False) -> Tool:
        """Return a tool that every level may use: what it starts works at the caller's level or below it."""
        spec = ToolSpec(
            name=name,
            description=description,
            parameters=given.schema(arguments),
            effect="read",
            replay_safe=safe,
            listed=False,
        )
        return SessionTool(spec, arguments, do, self.host)


START = (
    "Start a session of an agent of your team and give it a task. It returns at once with the session's id; the session"
    " works beside you, and its report wakes you when it is done. Start several at once for work that can be split."
)
LIST = "List the sessions that you started, the latest first, with what each is doing. Archived ones are left out."
QUERY = (
    "Send a message to a session of your tree: more work, a question, an answer. A busy one takes it up after the tools"
    " it runs, a stopped one starts again. Its report wakes you."
)
INTERRUPT = (
    "Interrupt a session of your tree at once, in the middle of a tool too, and tell it what to do instead. Use"
    " query_session for what can wait until its tools are done."
)
STOP = (
    "Stop a session of your tree and all below it. What waits for it goes into its history unanswered; query_session"
    " starts it again."
)
ARCHIVE = "Archive a session of your tree and all below it, for good: they take no message any more."
OUTPUT = (
    "Read what a session of your tree said last, and whether it still works. Not needed to wait for it: its report"
    " comes by itself."
)
AGENT = "Describe an agent of your team: what it is for, its model and its tools."
CONTINUE = (
    "Call this when a message interrupted your work, you have dealt with the message, and the work is still to be done:"
    " after your answer you are asked to go on with it. Anywhere else it does nothing."
)
