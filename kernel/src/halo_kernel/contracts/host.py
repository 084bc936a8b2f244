"""What a plugin holds of the server: the host, and all that it leads to."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ..blobs import Blobs
    from ..channels import Accounts
    from ..data import Data
    from ..egress import Egress
    from ..live import Live
    from ..secrets import Secrets
    from ..sessions import Outbox, Questions, Sessions
    from ..settings import Settings
    from ..workspaces import Workspaces


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
