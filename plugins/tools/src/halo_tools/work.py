"""One call of a tool at work: its arguments, its reach, and the thread that file operations run in."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from halo_kernel import BadInput, Call, Forbidden, HaloError, NotFound, Session, ToolSpec, fold_access, is_own_file
from halo_lib_files import FilesError, Missing, NoEdit, NotText, Outside, Refused, WrongKind

from .arguments import decode, schema
from .reach import Reach
from .settings import ToolSettings

A = TypeVar("A", bound=msgspec.Struct)
T = TypeVar("T")
WALK_SECONDS = 60.0
_ERRORS: tuple[tuple[type[FilesError], type[HaloError]], ...] = (
    (Outside, Forbidden),
    (Refused, Forbidden),
    (Missing, NotFound),
    (WrongKind, BadInput),
    (NotText, BadInput),
    (NoEdit, BadInput),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a session's tools work: its workspace's `folder`, HALO_HOME, and how to list the other workspaces."""

    folder: str
    home: str
    settings: ToolSettings
    others: Callable[[], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class Work(Generic[A]):
    """A call with its checked arguments and what it may open."""

    call: Call
    arguments: A
    place: Place

    @property
    def session(self) -> Session:
        """The session of the call."""
        return self.call.session

    @property
    def reach(self) -> Reach:
        """What this call may open: at the lower of the session's level and the turn's."""
        access = fold_access(self.call.session.info.access, self.call.access)
        return Reach(
            workspace=self.place.folder,
            home=self.place.home,
            access=access,
            settings=self.place.settings,
            own=is_own_file,
        )

    def given(self, name: str) -> bool:
        """Tell whether the model gave an argument at all."""
        return self.call.arguments.get(name) is not None

    async def in_thread(self, do: Callable[[Callable[[], None]], T]) -> T:
        """Run `do` in a thread with a check that raises when the call is to stop or a walk takes too long."""
        over = threading.Event()
        deadline = time.monotonic() + WALK_SECONDS

        def check() -> None:
            if over.is_set() or self.call.cancel.requested:
                raise HaloError("stopped.")
            if time.monotonic() > deadline:
                raise HaloError(f"there is too much to look through in {WALK_SECONDS:.0f} s; give a narrower path.")

        try:
            return await asyncio.to_thread(do, check)
        except FilesError as error:
            raise told(error) from error
        finally:
            over.set()


def told(error: FilesError) -> HaloError:
    """Return the kernel's error for one of the library's, with the same sentence."""
    kind = next((ours for theirs, ours in _ERRORS if isinstance(error, theirs)), HaloError)
    return kind(str(error))


@dataclass(frozen=True)
class Operation(Generic[A]):
    """A tool: its description, the struct of its arguments, and what it does."""

    spec: ToolSpec
    arguments: type[A]
    place: Place
    do: Callable[[Work[A]], Awaitable[str]]

    async def run(self, call: Call) -> str:
        """Check the arguments and do it. Raises `BadInput`, `Forbidden`, `NotFound` and other `HaloError`s."""
        return await self.do(Work(call, decode(call.arguments, self.arguments), self.place))


def describe(name: str, description: str, arguments: type[msgspec.Struct], *, write: bool = False) -> ToolSpec:
    """Return the description of a file tool; one that only reads may be run again after a crash."""
    return ToolSpec(
        name=name,
        description=description,
        parameters=schema(arguments),
        effect="write" if write else "read",
        replay_safe=not write,
    )
