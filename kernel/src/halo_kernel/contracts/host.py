"""What a plugin holds of the server: the host, and all that it leads to."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from ..records import Access, AgentSpec, Event, Message, Principal, QuestionInfo, Secret, SessionInfo, WorkspaceInfo
from .channels import Accounts
from .delivery import Outbox
from .sessions import Session
from .storage import Blobs, Database, DataScope, Migration, Place

if TYPE_CHECKING:
    import msgspec
    from structlog.typing import FilteringBoundLogger

    from ..folds import View
    from ..records import HealthCheck, Offer
    from ..settings import Reading

S = TypeVar("S", bound="msgspec.Struct")


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


class Settings(Protocol):
    """Typed settings. The library `halo-lib-settings` changes them."""

    @property
    def home(self) -> Path:
        """HALO_HOME."""

    def of(self, section: type[S], workspace: WorkspaceInfo | None = None) -> S:
        """Return the values of a section's struct as they are now: a file that was changed is read again.

        With `workspace`, its `.halo/settings.yaml` goes before the home's file, for what is not `global_only`. A file
        that is broken meanwhile leaves what counted before. Raises `NotFound` when no plugin provides the section.
        """

    def at(self, workspace: WorkspaceInfo | None = None) -> Reading:
        """Return all that counts now, for a workspace or for the whole server, and what is odd about it."""


class Secrets(Protocol):
    """The secrets that a plugin keeps by name: in private files, or in the keyring (the setting `secrets.store`).

    Whatever passes through here is masked in logs and transcripts from then on. Each method blocks for a short file
    operation, or as long as the system's keyring takes. The library `halo-lib-settings` keeps and forgets them.
    """

    @property
    def path(self) -> Path:
        """The file: a JSON object of texts, or of references to the keyring, by name."""

    def get(self, name: str) -> Secret | None:
        """Return a secret, None when there is none. Raises `BadInput` for a keyring that does not give it."""

    def known(self) -> Sequence[str]:
        """Return the names, sorted."""

    def mask(self, text: str) -> str:
        """Return `text` with every secret value that the server knows, settings' too, replaced by its handle's name."""


class Workspaces(Protocol):
    """The workspaces of this home."""

    async def open(self, path: str | Path, *, anew: bool = False) -> WorkspaceInfo:
        """Open a directory as a workspace and remember it; with `anew` under a new id, as a copy needs it.

        Raises `WorkspaceUnusable`, `Conflict`: it is a copy, or `anew` it is open or has work that is not finished.
        """

    async def get(self, workspace: str) -> WorkspaceInfo:
        """Return a workspace by id, opening it. Raises `NotFound`, `WorkspaceUnusable`."""

    async def list(self) -> Sequence[WorkspaceInfo]:
        """Return those that were opened, newest use first."""

    async def forget(self, workspace: str) -> None:
        """Take it off that list, until it is opened again; its directory stays. Raises `NotFound`, `Conflict`."""

    def agents(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        """Return the agents that can run here, best default first."""

    def agent(self, workspace: WorkspaceInfo, name: str | None = None) -> AgentSpec:
        """Return one agent, the default one for None. Raises `NotFound`, `BadFile`."""


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

    async def list(
        self, *, workspace: str, principal: Principal, before: int | None = None, limit: int = 50
    ) -> Sequence[SessionInfo]:
        """Return root sessions, newest first; `before` is the last row's `updated_at`."""

    async def view(self, session: str, *, workspace: str, principal: Principal) -> tuple[View, str]:
        """Return what people see of a session, and the cursor behind the last event of it. Raises `NotFound`."""

    async def export(
        self, session: str, *, workspace: str, principal: Principal
    ) -> tuple[SessionInfo, View, tuple[Message, ...]]:
        """Return a session, what people see of it, and its history as any provider takes it; nothing is opened for it.

        Raises `NotFound`.
        """

    async def events(
        self, session: str, *, workspace: str, principal: Principal, after: int = 0, limit: int = 500
    ) -> Sequence[Event]:
        """Return events of a session behind number `after`, oldest first, without opening it. Raises `NotFound`."""

    async def changed(self, *, workspace: str, since: int, after: str = "", limit: int = 500) -> Sequence[SessionInfo]:
        """Return the sessions, of all principals, that changed since a time in UTC milliseconds, by id.

        Those below others, archived and deleted ones are among them; the next page comes after the last id. A change
        is in the list some time after its own, as writes wait. A plugin that shows any of this to somebody answers for
        the filter by principal.
        """

    async def erase(self, session: str, *, workspace: str, principal: Principal, start: int, end: int) -> Event:
        """Take out for good what events `start` to `end` say, whole turns of them; return the event that tells of it.

        Nothing of it is in the database's files then, nor are blobs that only they named. Raises `Conflict` while the
        session runs or sends, or another process works on it, `BadInput` for what is no range of whole turns.
        """

    async def delete_exchange(self, session: str, *, workspace: str, principal: Principal, row: int) -> Event:
        """Show a person's message (inbox row `row`) and what was answered to it no more, to people and models.

        Where several were answered together the answer goes with the last one. Nothing is taken out of the journal.
        Raises `NotFound` for what is no exchange, `Conflict` while the session runs.
        """

    async def rename(self, session: str, *, workspace: str, principal: Principal, title: str) -> Event:
        """Give a session a title, which no message replaces. Raises `BadInput`, `NotFound`."""

    async def fork(self, session: str, *, workspace: str, principal: Principal, title: str | None = None) -> Session:
        """Make a root session with the history of another one; from then on neither knows of the other.

        What waits, is asked or owed stays with the original; of its open turn the copy has an interrupted one.
        """

    async def delete(self, session: str, *, workspace: str, principal: Principal) -> None:
        """Delete a session and all below it: it ends at once, its id is never used again, and nobody finds it.

        What it still owes is sent, as `deleted`; a day later its rows are taken out of the database.
        """


class Questions(Protocol):
    """The questions of this home, filtered by principal."""

    async def list(
        self, *, workspace: str, principal: Principal, session: str | None = None, everything: bool = False
    ) -> Sequence[QuestionInfo]:
        """Return the open questions of the principal's sessions, oldest first; with `everything` settled ones too."""

    async def answer(
        self, question: int, *, workspace: str, principal: Principal, approved: bool, text: str = ""
    ) -> QuestionInfo:
        """Settle a question and let its session go on.

        Raises `NotFound`, `Forbidden` below the call's level, `Conflict` for a question that is settled or over.
        """


class Data(Protocol):
    """Databases for plugins."""

    async def open(
        self, name: str, scope: DataScope, migrations: Sequence[Migration], *, workspace: str = ""
    ) -> Database:
        """Open a database of one's own."""

    def places(self) -> Sequence[Place]:
        """Return where the databases lie that are open."""

    async def backup(self, place: Place, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """Copy a database, one that is not open too, to the file `path`; see `Database.backup`."""


class Subscription(Protocol):
    """What is published from now on, in order; ends when it is closed. Dropping it closes it."""

    missed: int
    """How many values were dropped, always the oldest, because nobody took them in time."""

    def __aiter__(self) -> Subscription:
        """Return itself."""

    async def __anext__(self) -> Any:
        """Wait for the next value."""

    def close(self) -> None:
        """Take no more; values that wait can still be had."""


class Live(Protocol):
    """Lossy topics, `<plugin>:<noun>`, such as `cron:run_changed`. Use it on the event loop's thread."""

    def publish(self, topic: str, value: object) -> None:
        """Hand a value to those who listen now; never waits, and costs nothing when nobody does."""

    def subscribe(self, topic: str) -> Subscription:
        """Listen from now on. Raises `BadInput` for a topic of another form."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where to dial, checked: `ip` is an address and never a name; `host` is what was asked for, for TLS and HTTP."""

    host: str
    ip: str
    port: int


class Egress(Protocol):
    """Keeps models and remotes away from this machine and its networks.

    Dial the addresses that it returns, not the name: a second look-up may answer differently. A redirect names a new
    host, and a client that is given an address asks no resolver, so both are resolved here too; the library
    `halo-lib-egress` has both for aiohttp.
    """

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a host (or of an address) that may be dialled, at least one.

        Only public ones, and those that the setting `egress.allow` lists. Raises `Forbidden` when there are none,
        `BadInput` for what can be no host, `OSError` when the name is not known.
        """


class Operations(Protocol):
    """The running kernel, for a plugin that shows it to the operator; `Host.lookup` gives it."""

    async def models(self) -> tuple[Sequence[Offer], Offer | None, str]:
        """Return the offers, best first, the one a new turn would use, and why, or why there is none."""

    async def reports(self) -> Sequence[HealthCheck]:
        """Return what plugins say of their own matters; one that fails to is degraded."""

    async def databases(self) -> Mapping[Path, Database]:
        """Return the kernel's own databases, to be read: the home's, then those of open workspaces, by their folder."""


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
        `Operations`.
        """

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a named background task that ends with the server; a failure is logged by name."""
