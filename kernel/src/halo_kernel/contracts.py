"""What plugins supply and what the kernel hands to them, as protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from .records import (
    Access,
    AgentSpec,
    Body,
    Chunk,
    Delta,
    Event,
    Incoming,
    ModelRequest,
    Offer,
    Principal,
    Receipt,
    SessionInfo,
    ToolSpec,
    TurnResult,
    WorkspaceInfo,
)

if TYPE_CHECKING:
    import msgspec
    from structlog.typing import FilteringBoundLogger

    from .settings import SettingsField

T = TypeVar("T")
S = TypeVar("S", bound="msgspec.Struct")
Value = str | int | float | bytes | None
Row = tuple[Any, ...]
Scope = Literal["global", "secret", "workspace"]


class Clock(Protocol):
    """Time and random ids; tests give their own."""

    def now(self) -> int:
        """Return UTC milliseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def new_id(self, bits: Literal[64, 128] = 128) -> str:
        """Return a random lower-case hex id (128 bits: a W3C trace id; 64 bits: a span id)."""
        ...


# Storage


class Tx(Protocol):
    """One transaction. Portable SQL only: `?` parameters, `ON CONFLICT`, `RETURNING`, JSON as text."""

    def execute(self, sql: str, args: Sequence[Value] = ()) -> Iterator[Row]:
        """Run one statement and return its rows."""
        ...

    def one(self, sql: str, args: Sequence[Value] = ()) -> Row | None:
        """Run one statement and return its first row, or None."""
        ...


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A step to schema `version`; older servers than `min_reader` refuse the database afterwards."""

    version: int
    sql: str
    min_reader: int = 1


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a database lives: its name, its scope, and the directory that the scope stands for."""

    name: str
    scope: Scope
    directory: Path


class Lease(Protocol):
    """The right to write something, held by this process until released or lost."""

    @property
    def name(self) -> str:
        """What it guards, such as `tree:<root>`."""
        ...

    @property
    def epoch(self) -> int:
        """The fence: grows with every holder."""
        ...

    def check(self, tx: Tx) -> None:
        """Raise `LeaseLost` unless the lease is still ours, inside the transaction that writes."""
        ...

    async def release(self) -> None:
        """Give it back; harmless when it is lost already."""
        ...


class Bell(Protocol):
    """Wakes a waiter when a topic was notified, here or in another process. Rings are merged, ids are not kept."""

    async def wait(self) -> None:
        """Return once the topic was notified after the last `wait`."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class Database(Protocol):
    """One open database. A function given to `write` may run twice: it takes all from its arguments and its `Tx`."""

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in one transaction and return its result after the commit.

        Raises `StorageUnavailable` when nothing was written; what `fn` raises rolls back `fn` alone. A cancelled caller
        knows nothing and must read again.
        """
        ...

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` on one consistent snapshot."""
        ...

    async def lease(self, name: str) -> Lease:
        """Take a lease, or raise `LeaseHeld` when a living process holds it."""
        ...

    def notify(self, topic: str) -> None:
        """Ring every bell of `topic`; call it after the commit."""
        ...

    def listen(self, topic: str) -> Bell:
        """Return a bell that is already listening."""
        ...

    async def close(self) -> None:
        """Finish what was accepted and close."""
        ...


class Storage(Protocol):
    """A storage engine."""

    schemes: Sequence[str]

    async def open(self, place: Place, migrations: Sequence[Migration]) -> Database:
        """Open (or create) a database and bring its schema up to date.

        Raises `NewerData` when it needs a newer version, `StorageUnavailable` when it cannot be used.
        """
        ...

    def owns(self, path: str | int) -> bool:
        """Tell whether a path or descriptor is one of the engine's own open files, which nobody else may open."""
        ...


# Models, agents, tools


class ModelProvider(Protocol):
    """Answers model calls for the models `<name>/…`."""

    name: str

    async def offers(self) -> Sequence[Offer]:
        """Return the models with whether each can answer now, and why. Bounded to a second or two."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Yield the answer as it comes: deltas, whole tool calls, usage, then one `Stop`. Raises `ModelError`."""
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...


class AgentSource(Protocol):
    """Finds agents in a workspace."""

    def find(self, workspace: WorkspaceInfo, agent: str) -> AgentSpec | None:
        """Return the agent, or None. Raises `BadFile` when its definition is broken."""
        ...

    def list(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        """Return all agents that can be read."""
        ...


class Cancel(Protocol):
    """Tells a tool to stop: soft first, then its task is cancelled."""

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""
        ...

    async def wait(self) -> None:
        """Return when a stop is asked for."""
        ...


class Call(Protocol):
    """One tool call that is about to run."""

    @property
    def id(self) -> str:
        """The call's id."""
        ...

    @property
    def tool(self) -> ToolSpec:
        """The tool's description."""
        ...

    @property
    def arguments(self) -> Mapping[str, object]:
        """What the model gave: an object, not yet checked against `tool.parameters`."""
        ...

    @property
    def session(self) -> Session:
        """The session it runs in."""
        ...

    @property
    def turn(self) -> str:
        """The turn's id."""
        ...

    @property
    def access(self) -> Access:
        """The level it runs at."""
        ...

    @property
    def cancel(self) -> Cancel:
        """When to stop."""
        ...

    def progress(self, text: str) -> None:
        """Show people a line about a long call; never stored."""
        ...


class Tool(Protocol):
    """Something an agent can do."""

    @property
    def spec(self) -> ToolSpec:
        """How a model sees it."""
        ...

    async def run(self, call: Call) -> str:
        """Do it and return the text for the model; any exception becomes an error result with its message."""
        ...


# What the kernel hands out


class Session(Protocol):
    """One conversation of one agent in one workspace."""

    @property
    def info(self) -> SessionInfo:
        """What lists show, as of now."""
        ...

    @property
    def agent(self) -> AgentSpec:
        """The agent, as it was when the session was opened."""
        ...

    async def submit(self, message: Incoming) -> Receipt:
        """Make a message durable and see that it is answered; returns after the commit.

        Raises `BadInput`, `SessionClosed`, `QueueFull`, `StorageUnavailable`; each leaves no trace.
        """
        ...

    def prompt(self, message: Incoming) -> Prompt:
        """Register a run at once, write the message, and return a handle. Raises `SessionClosed`."""
        ...

    def interrupt(self) -> bool:
        """Cancel the active run; waiting messages stay. Returns whether there was one."""
        ...

    def events(self, after: str | None = None, *, live: bool = False) -> AsyncGenerator[Update, None]:
        """Yield what came after the cursor `after`; with `live` go on with events and deltas as they happen.

        Raises `CursorGone` for a cursor of another journal.
        """
        ...

    async def output(self) -> str:
        """Return the last finished answer's text."""
        ...

    async def append(self, bodies: Sequence[Body]) -> Sequence[Event]:
        """Write a plugin's own events."""
        ...


class Prompt(Protocol):
    """A message on its way: `accepted` is its receipt, `result` how the turn that consumed it ended."""

    @property
    def accepted(self) -> Awaitable[Receipt]:
        """The receipt, after the commit."""
        ...

    @property
    def result(self) -> Awaitable[TurnResult]:
        """How the turn that consumed it ended; a turn that gave way is followed to the one that took over."""
        ...

    def cancel(self) -> None:
        """Withdraw the message, or cancel the turn that consumes it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Update:
    """One step of a session's stream: an event with the cursor after it, or a delta (no cursor)."""

    event: Event | None = None
    delta: Delta | None = None
    cursor: str | None = None


class Settings(Protocol):
    """Typed settings."""

    @property
    def home(self) -> Path:
        """HALO_HOME."""
        ...

    def of(self, section: type[S]) -> S:
        """Return the values of a section's struct."""
        ...

    def fields(self) -> Sequence[SettingsField]:
        """Return every setting with its rule, value and source; a secret as its handle."""
        ...

    def reload(self) -> None:
        """Read the file again, after another process wrote it. Raises `BadFile` and keeps what counted before."""
        ...

    def write(self, changes: Mapping[str, object], *, revision: str | None = None) -> str:
        """Set dotted keys durably (None goes back to the default) and return the file's new revision.

        Raises `Conflict` when the file is not the one of `revision`, `BadInput` for a value that breaks a rule.
        """
        ...


class Workspaces(Protocol):
    """The workspaces of this home."""

    async def open(self, path: str | Path) -> WorkspaceInfo:
        """Open a directory as a workspace and remember it. Raises `WorkspaceUnusable`."""
        ...

    async def get(self, workspace: str) -> WorkspaceInfo:
        """Return a workspace by id, opening it. Raises `NotFound`, `WorkspaceUnusable`."""
        ...

    async def list(self) -> Sequence[WorkspaceInfo]:
        """Return those that were opened, newest use first."""
        ...

    def agents(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        """Return the agents that can run here, best default first."""
        ...

    def agent(self, workspace: WorkspaceInfo, name: str | None = None) -> AgentSpec:
        """Return one agent, the default one for None. Raises `NotFound`, `BadFile`."""
        ...


class Sessions(Protocol):
    """The sessions of this home, filtered by principal."""

    async def open(
        self,
        session: str,
        *,
        workspace: str,
        principal: Principal,
        agent: str | None = None,
        create: bool = False,
        origin: str = "",
        directory: str | None = None,
    ) -> Session:
        """Return the session, opening it. With `create`, one that does not exist is made with exactly this id.

        A new one's `origin` is what its id begins with, before the first `_`, unless given.
        `directory` re-points it to a part of the workspace ('' or '.': all of it). Raises `Conflict` while it runs.
        """
        ...

    async def create(
        self,
        *,
        workspace: str,
        principal: Principal,
        agent: str | None = None,
        access: Access | None = None,
        origin: str = "sid",
        title: str = "",
        directory: str = "",
    ) -> Session:
        """Make a session.

        Raises `NotFound` for an unknown agent or workspace, `BadInput` for a directory that is not in the workspace.
        """
        ...

    async def list(
        self, *, workspace: str, principal: Principal, before: int | None = None, limit: int = 50
    ) -> Sequence[SessionInfo]:
        """Return root sessions, newest first; `before` is the last row's `updated_at`."""
        ...


class Data(Protocol):
    """Databases for plugins."""

    async def open(self, name: str, scope: Scope, migrations: Sequence[Migration], *, workspace: str = "") -> Database:
        """Open a database of one's own."""
        ...


class Host(Protocol):
    """What a plugin holds of the server."""

    @property
    def settings(self) -> Settings:
        """Typed settings."""
        ...

    @property
    def log(self) -> FilteringBoundLogger:
        """The plugins' logger."""
        ...

    @property
    def clock(self) -> Clock:
        """Time and random ids."""
        ...

    @property
    def data(self) -> Data:
        """Databases of the plugin's own."""
        ...

    @property
    def workspaces(self) -> Workspaces:
        """The workspaces of this home and their agents."""
        ...

    @property
    def sessions(self) -> Sessions:
        """The sessions of this home."""
        ...

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a named background task that ends with the server; a failure is logged by name."""
        ...
