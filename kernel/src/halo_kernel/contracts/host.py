"""What a plugin holds of the server and of a session: the host, a turn and its calls; and what a tool supplies."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

from .. import records
from ..errors import ModelError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ..blobs import Blobs
    from ..channels import Accounts
    from ..data import Data
    from ..egress import Egress
    from ..live import Live
    from ..scopes import Scope
    from ..secrets import Secrets
    from ..sessions import Outbox, Questions, Sessions
    from ..sessions import Session as Session
    from ..settings import Settings
    from ..workspaces import Workspaces

Closer = Callable[[], Awaitable[object] | None]


class Clock(Protocol):
    """Time and random ids; tests give their own."""

    def now(self) -> int:
        """Return UTC milliseconds."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def new_id(self, bits: Literal[64, 128] = 128) -> str:
        """Return a random lower-case hex id (128 bits: a W3C trace id; 64 bits: a span id)."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where to dial, checked: `ip` is an address and never a name; `host` is what was asked for, for TLS and HTTP."""

    host: str
    ip: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Host:
    """What a plugin holds of the server."""

    settings: Settings  # Typed settings.
    secrets: Secrets  # The secrets that the plugin keeps by name.
    log: FilteringBoundLogger  # The plugins' logger.
    clock: Clock  # Time and random ids.
    data: Data  # Databases of the plugin's own.
    workspaces: Workspaces  # The workspaces of this home and their agents.
    sessions: Sessions  # The sessions of this home.
    accounts: Accounts  # The accounts of channels.
    questions: Questions  # What waits for a person.
    outbox: Outbox  # What is owed to others.
    blobs: Blobs  # Large values beside the journal.
    live: Live  # Lossy topics between plugins and pages.
    egress: Egress  # What checks every outgoing connection that a model or a remote names.

    def lookup(self, kind: str, name: str) -> object | None:
        """Return another plugin's `channel`, `dispatcher` or `model` provider by name, None when there is none.

        The kind `routes` gives all routes that the server answers, each with its plugin's name; `kernel` gives the
        running `Kernel`.
        """

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a named background task that ends with the server; a failure is logged by name."""


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
