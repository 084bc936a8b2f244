"""A session as plugins hold it, its calls and scopes, and what a tool supplies."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, Protocol

from .. import records
from ..errors import ModelError

if TYPE_CHECKING:
    from ..scopes import Scope
    from ..sessions import Prompt

Closer = Callable[[], Awaitable[object] | None]


class Cancel(Protocol):
    """Tells a tool to stop: soft first, then its task is cancelled."""

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""

    async def wait(self) -> None:
        """Return when a stop is asked for."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a session: why it runs, and the routes that its answer goes to.

    `cause` is that of the first message it took: `message`, `report`, `recovery`, or a plugin's own word. `routes` are
    those of its messages, each once, in their order: none for a page or a terminal. `after` is how the turn before it
    ended, '' when there was none or a crash cut it.
    """

    id: str
    cause: str
    routes: tuple[str, ...] = ()
    after: str = ""

    @property
    def trace(self) -> str:
        """The W3C trace id, 32 hex digits: the turn's own id; those of its calls are span ids."""
        return self.id


@dataclass(frozen=True, kw_only=True)
class Call:
    """One tool call that is about to run; `arguments` is the object that the model gave, not yet checked.

    `id` is the kernel's own and random, the same before and after a question and a restart. When a crash cuts a call,
    it does not run again: a model that asks once more makes a call with another id.
    """

    id: str
    tool: records.ToolSpec
    arguments: Mapping[str, object]
    session: Session
    turn: Turn
    access: records.Access  # The level it runs at.
    cancel: Cancel  # When to stop.
    scope: Scope  # What ends with the call: closers, tasks and processes of the tool.
    approval: records.Answer | None = None  # How a guard's question about this call was answered, if one asked.
    answer: records.Answer | None = None  # To what the tool itself asked, None in its first run.

    def ask(self, question: records.Question) -> NoReturn:
        """Wait for a person, without a task: this raises, and after the answer the call starts anew with `answer` set.

        So a tool asks before its first effect. One that nobody answers in time is a refusal whose `by` is ''.
        """
        raise NotImplementedError("only a call that a turn runs can wait for a person")

    def progress(self, text: str) -> None:
        """Show people a line about a long call; never stored."""


class Tool(Protocol):
    """Something an agent can do."""

    @property
    def spec(self) -> records.ToolSpec:
        """How a model sees it."""

    async def run(self, call: Call) -> str:
        """Do it and return the text for the model; any exception becomes an error result with its message."""


class Session(Protocol):
    """One conversation of one agent in one workspace."""

    @property
    def info(self) -> records.SessionInfo:
        """What lists show, as of now."""

    @property
    def agent(self) -> records.AgentSpec:
        """The agent, as it was when the session was opened."""

    @property
    def scope(self) -> Scope:
        """What ends when the session is closed."""

    async def submit(self, message: records.Incoming) -> records.Receipt:
        """Make a message durable and see that it is answered; returns after the commit.

        Raises `BadInput`, `SessionClosed`, `QueueFull`, `Conflict` when the session owes its report to somebody who
        does not give way, `StorageUnavailable`; each leaves no trace.
        """

    def prompt(self, message: records.Incoming) -> Prompt:
        """Register a run at once, write the message, and return a handle. Raises `SessionClosed`."""

    def events(self, after: str | None = None, *, live: bool = False) -> AsyncGenerator[Update, None]:
        """Yield what came after the cursor `after`; with `live` go on with events and deltas as they happen.

        Raises `CursorGone` for a cursor of another journal.
        """

    async def output(self) -> str:
        """Return the last finished answer's text."""

    async def commands(self) -> Sequence[records.CommandSpec]:
        """Return what people can ask for here by `/name`, by that name."""

    async def children(self, *, working: bool = False) -> Sequence[records.SessionInfo]:
        """Return the sessions that were started from this one, oldest first; with `working` those not at rest.

        That is, which have something to do yet, themselves or below.
        """

    async def waiting(self) -> Sequence[records.PreparedInput]:
        """Return the messages that no turn has taken up yet, oldest first."""

    async def start_child(
        self, agent: str, *, access: records.Access | None = None, title: str = "", directory: str | None = None
    ) -> Session:
        """Make a session of the same tree, owned by the same principal, at this one's level or a lower one.

        It is about `directory`, a part of the workspace, or about what this one is. Raises `BadInput`, `NotFound`.
        """

    def interrupt(self) -> bool:
        """Cancel the active run, a paused one too; waiting messages stay. Returns whether there was one."""

    async def compact(self) -> bool:
        """Make the model's history shorter now, and tell whether it has become so; `interrupt` stops this.

        Messages that come meanwhile are answered after it. Raises `Conflict` while the session runs, `PromptTooLarge`,
        and what the plugin raised that does it; then, and when it is stopped, the history is as it was.
        """

    async def stop(self) -> None:
        """Cancel this session and all below it; what waits goes into the history unanswered."""

    async def archive(self) -> None:
        """Stop this session and all below it, drop what waits, and refuse new messages from then on."""

    async def append(
        self, kind: str, body: Mapping[str, object], *, expect_head: int | None = None, state: object = ...
    ) -> records.Event:
        """Write an event of the plugin's own kind, `<plugin>.<noun>`, with its new `state` if one is given.

        Raises `Conflict` when the journal's head is not `expect_head`, `BadInput` for a kind of the kernel's.
        """

    async def state(self, plugin: str) -> object:
        """Return the JSON value that `append` last stored for a plugin, or None."""

    async def complete(self, request: records.ModelRequest, *, purpose: str) -> str:
        """Ask a model beside the turn: guarded, retried, and accounted for in the journal; return its text.

        `request.model` is `<provider>/<id>`, '' for the session's own. Raises `ModelError`.
        """

    async def mark(self, name: str) -> None:
        """Mark the session for good, such as with a source that it has read from; `info.marks` has it."""


class Command(Protocol):
    """What a person can ask of the server itself by `/name`."""

    @property
    def spec(self) -> records.CommandSpec:
        """How lists and help show it, and who may ask for what."""

    async def run(
        self, verb: str, arguments: str, message: records.Incoming, session: Session
    ) -> records.CommandResult:
        """Do it: `verb` is one of the spec's, '' for none, `arguments` what follows. A `HaloError` is told as it is.

        It is run again when a crash kept its result from being written.
        """


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """One model call, for those who guard and account for it; `usage` or `error` once it has finished.

    Neither: it was cut, or waits for a person. `spent` has every attempt that has begun, by the reply's id, with what
    it reported, as the journal's `usage` events have it, or None. `cause` is the turn's, '' beside one; `price` is the
    offer's.
    """

    id: str
    model: str
    purpose: str
    request: records.ModelRequest
    session: Session
    turn: str
    cause: str = ""
    price: records.Price | None = None
    approval: records.Answer | None = None
    usage: records.Usage | None = None
    error: ModelError | None = None
    spent: dict[str, records.Usage | None] = field(default_factory=dict[str, records.Usage | None])


@dataclass(frozen=True, kw_only=True)
class Update:
    """One step of a session's stream: an event with the cursor after it, or a delta (no cursor)."""

    event: records.Event | None = None
    delta: records.Delta | None = None
    cursor: str | None = None
