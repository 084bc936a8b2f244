"""What a storage engine supplies, databases, transactions, leases and bells."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")
Value = str | int | float | bytes | None
Row = tuple[Any, ...]
DataScope = Literal["global", "secret", "workspace"]


class Tx(Protocol):
    """One transaction, for as long as its function runs.

    SQL that a plugin may use on any engine: `?` parameters, `ON CONFLICT`, `RETURNING`, JSON as text, foreign keys.
    """

    def execute(self, sql: str, args: Sequence[Value] = ()) -> Iterator[Row]:
        """Run one statement and return its rows, which may be read after the function has returned.

        Raises `ConstraintFailed`, `BadInput` for SQL that is refused (`sql`) and for values that cannot be kept
        (`args`): NaN, integers beyond 64 bits, text with U+0000 or half a character.
        """

    def one(self, sql: str, args: Sequence[Value] = ()) -> Row | None:
        """Run one statement and return its first row, or None."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A step to schema `version`; older servers than `min_reader` refuse the database afterwards."""

    version: int
    sql: str
    min_reader: int = 1


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a database lives: its name, its scope, and the directory that the scope stands for, made if it is missing.

    SQLite keeps it in `<directory>/<name>.db`; another engine may take name and directory as a key alone.
    """

    name: str
    scope: DataScope
    directory: Path


class Lease(Protocol):
    """The right to write something, held by this process until released or lost."""

    @property
    def name(self) -> str:
        """What it guards, such as `tree:<root>`."""

    @property
    def epoch(self) -> int:
        """The fence: grows with every holder."""

    def check(self, tx: Tx) -> None:
        """Raise `LeaseLost` unless the lease is still ours, inside the transaction that writes."""

    async def release(self) -> None:
        """Give it back; harmless when it is lost already."""


class Bell(Protocol):
    """Wakes a waiter when a topic was notified, here or in another process. Rings are merged, ids are not kept."""

    async def wait(self) -> None:
        """Return once the topic was notified after the last `wait`, or listening has ended meanwhile.

        Raises `StorageUnavailable` when it had ended before.
        """

    def close(self) -> None:
        """Stop listening; who waits is woken. The database closes its bells with itself."""


class Database(Protocol):
    """One open database. A function given to `write` may run twice: it takes all from its arguments and its `Tx`."""

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in one transaction and return its result after the commit.

        Raises `StorageUnavailable` when nothing was written, `ConstraintFailed` for a rule that is looked at with the
        commit; what `fn` raises rolls back `fn` alone. A cancelled caller knows nothing and must read again.
        """

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` on one consistent snapshot, in which it cannot write."""

    async def lease(self, name: str) -> Lease:
        """Take a lease, or raise `LeaseHeld` when a living process holds it."""

    def notify(self, topic: str) -> None:
        """Ring every bell of `topic`, any text; call it after the commit, for which other processes' bells ring."""

    def listen(self, topic: str) -> Bell:
        """Return a bell that is already listening."""

    async def backup(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """Write a copy of one moment to the file `path`, in its place once it is complete; writes go on meanwhile.

        `progress` is told on the caller's loop how much of how much is there. Raises `BadInput` for a path that is one
        of the engine's own, `StorageUnavailable` when there is no copy; a file at `path` is as it was then.
        """

    async def scrub(self) -> None:
        """Return once what was deleted or overwritten is nowhere in the database's files."""

    async def close(self) -> None:
        """Finish what was accepted and close; harmless twice. Everything after it raises `StorageUnavailable`."""


class Storage(Protocol):
    """A storage engine. A home keeps to the one of that `name` which it began with.

    A kernel asks for its engine once; it has each place open once at a time, on its event loop, and closes them all at
    its end. The first to be opened is `kernel` of the scope `global`; what raises there keeps the server from starting.
    """

    name: str

    async def open(self, place: Place, migrations: Sequence[Migration]) -> Database:
        """Open (or create) a database and bring its schema up to date.

        Raises `NewerData` when it needs a newer version, `StorageUnavailable` when it cannot be used.
        """

    async def copy(self, place: Place, path: Path) -> None:
        """Copy a database that is not open here to the file `path`, and do not change it; see `Database.backup`."""

    def owns(self, path: str | int) -> bool:
        """Tell whether a path or descriptor is one of the engine's own open files, which nobody else may open."""
