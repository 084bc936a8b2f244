"""A session as plugins hold it, its calls, and what a tool supplies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..records import (
    Access,
    AgentSpec,
    Body,
    Delta,
    Event,
    Incoming,
    Receipt,
    SessionInfo,
    ToolSpec,
    TurnResult,
)


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
