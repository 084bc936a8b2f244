"""Crashes at chosen points: work in a process of its own that kills itself just before or just after a commit."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import time
import traceback
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from ..contracts import Bell, Clock, Database, Lease, Migration, Place, Storage, Tx
from ..hookspecs import hook
from ..sqlite import SqliteStorage
from .rehearsal import name_of
from .workbench import Plugins, Workbench

T = TypeVar("T")
Side = Literal["before", "after"]
Work = Callable[[Workbench], Awaitable[object]]

_NEVER = -1_000_000  # no point has such a number
_SIDES: tuple[Side, ...] = ("before", "after")


@dataclass(frozen=True, kw_only=True)
class CrashPoint:
    """Just before or just after the commit `number`, from 1; `what` names its database and function."""

    side: Side
    number: int
    what: str = ""

    def __str__(self) -> str:
        return f"just {self.side} commit {self.number}" + (f" ({self.what})" if self.what else "")


class CrashingStorage:
    """A plugin with a storage engine: SQLite, and `reached` called before and after every commit.

    A commit is a write, an opening (which migrates) or the taking of a lease. `reached` is called inside the
    transaction, all statements made, in the writer's thread; then on the loop, before the caller goes on.
    """

    schemes: Sequence[str] = ("crashing",)

    def __init__(self, reached: Callable[[CrashPoint], None]) -> None:
        self.commits = 0
        self._reached = reached
        self._inner = SqliteStorage()

    @hook
    def provide_storage(self) -> Sequence[Storage]:
        """This engine; the kernel takes it instead of its own."""
        return [self]

    async def open(self, place: Place, migrations: Sequence[Migration]) -> Database:
        """Open the real database behind one that tells of its commits."""
        inner = await self.around(f"{place.name}: open", self._inner.open(place, migrations))
        return _Crashing(self, place.name, inner)

    async def copy(self, place: Place, path: Path) -> None:
        """See `contracts.Storage`."""
        await self._inner.copy(place, path)

    def owns(self, path: str | int) -> bool:
        """See `contracts.Storage`."""
        return self._inner.owns(path)

    def next(self, what: str) -> Callable[[Side], None]:
        """Number a commit and return what tells of its sides."""
        self.commits += 1
        number = self.commits
        return lambda side: self._reached(CrashPoint(side=side, number=number, what=what))

    async def around(self, what: str, work: Coroutine[Any, Any, T]) -> T:
        """Do something that commits by itself."""
        reach = self.next(what)
        reach("before")
        result = await work
        reach("after")
        return result


class _Crashing:
    def __init__(self, storage: CrashingStorage, name: str, inner: Database) -> None:
        self._storage = storage
        self._name = name
        self._inner = inner

    async def write(self, fn: Callable[[Tx], T]) -> T:
        reach = self._storage.next(f"{self._name}: {name_of(fn)}")

        def complete(tx: Tx) -> T:
            result = fn(tx)
            reach("before")
            return result

        result = await self._inner.write(complete)
        reach("after")
        return result

    async def read(self, fn: Callable[[Tx], T]) -> T:
        return await self._inner.read(fn)

    async def lease(self, name: str) -> Lease:
        return await self._storage.around(f"{self._name}: lease {name}", self._inner.lease(name))

    def notify(self, topic: str) -> None:
        self._inner.notify(topic)

    def listen(self, topic: str) -> Bell:
        return self._inner.listen(topic)

    async def backup(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        await self._inner.backup(path, progress=progress)

    async def scrub(self) -> None:
        await self._inner.scrub()

    async def close(self) -> None:
        await self._inner.close()


class CrashPoints:
    """Runs `work` again and again, each time in a new home and a process of its own that dies at the next point.

    `crash_points(work, check)` calls `work` with a workbench in a forked process and has SIGKILL end it just before, or
    just after, each commit until `work` comes to its end. After each crash, and after the end, `check` gets a workbench
    on what is left, in this process. It returns the points at which the process died. `prepare` makes what `work`
    finds: it runs to its end, in a process too. `begin` runs in the process that dies, ahead of `work`; no commit until
    its end is a point. `clock` makes the clock of each workbench. Use it in a plain test function: it runs event loops
    of its own.

    Raises `AssertionError` that names the point when `check` fails there, when `work` fails by itself or takes longer
    than `seconds`, and when there are more than `most` commits.
    """

    def __init__(self, folder: Path, *, plugins: Plugins = (), clock: Callable[[], Clock] | None = None) -> None:
        self._folder = folder
        self._plugins = plugins
        self._clock = clock

    def __call__(
        self,
        work: Work,
        check: Work,
        *,
        prepare: Work | None = None,
        begin: Work | None = None,
        most: int = 100,
        seconds: float = 60.0,
    ) -> list[CrashPoint]:
        """See the class."""
        _refuse_loop()
        if not hasattr(os, "fork"):
            raise NotImplementedError("crash points need os.fork, which this system does not have")
        died: list[CrashPoint] = []
        for at in _points():
            if at.number > most:
                raise AssertionError(f"there are more than {most} commits; the last was {died[-1]}")
            folder = self._folder / f"crash-{at.side}-{at.number}"
            folder.mkdir()
            if prepare is not None:
                self._run([prepare], folder, None, seconds)
            point, commits = self._run([begin, work] if begin else [work], folder, at, seconds)
            self._check(check, folder, point)
            died += [point] if point else []
            if point is None and at.number > commits:
                return died
        return died

    def _run(
        self, works: Sequence[Work], folder: Path, at: CrashPoint | None, seconds: float
    ) -> tuple[CrashPoint | None, int]:
        """Do the works in a process; return where it died in the last, or None and how many commits that had."""
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # this process may have threads; the child uses none
            pid = os.fork()
        if pid == 0:
            self._live(works, folder, at, writing)
        os.close(writing)
        report, late = _report(reading, pid, seconds)
        if "died" in report:
            return CrashPoint(**report["died"]), 0
        if "commits" in report:
            return None, int(report["commits"])
        where = f", due to die {at}" if at else ""
        why = f"it took longer than {seconds:g} s" if late else report.get("error", "its process ended by itself")
        raise AssertionError(f"the work{where}, failed: {why}")

    def _live(self, works: Sequence[Work], folder: Path, at: CrashPoint | None, out: int) -> NoReturn:
        """Be the process that dies. Nothing of the parent's is touched: no buffer flushed, no exit function run."""

        def reached(point: CrashPoint) -> None:
            if at is not None and (point.side, point.number) == (at.side, at.number):
                died = {"side": point.side, "number": point.number, "what": point.what}
                os.write(out, json.dumps({"died": died}).encode())
                os.kill(os.getpid(), signal.SIGKILL)

        storage = CrashingStorage(reached)
        try:
            self._loop(works, folder, storage)
            os.write(out, json.dumps({"commits": storage.commits}).encode())
        except BaseException:
            os.write(out, json.dumps({"error": traceback.format_exc()[-4000:]}).encode())
        finally:
            os._exit(0)

    def _check(self, check: Work, folder: Path, point: CrashPoint | None) -> None:
        try:
            self._loop([check], folder, None)
        except Exception as error:
            where = f"after a crash {point}" if point else "without a crash"
            raise AssertionError(f"{where}: {str(error) or repr(error)}") from error

    def _loop(self, works: Sequence[Work], folder: Path, storage: CrashingStorage | None) -> None:
        async def whole() -> None:
            clock = self._clock() if self._clock else None
            bench = Workbench(folder, plugins=self._plugins, storage=storage, clock=clock)
            try:
                for number, work in enumerate(works, 1):
                    if storage is not None:
                        storage.commits = 0 if number == len(works) else _NEVER
                    await work(bench)
            finally:
                await bench.close()

        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(whole())


def _refuse_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("crash_points runs event loops of its own: call it in a plain `def test_…`, not an async one")


def _points() -> Iterator[CrashPoint]:
    number = 0
    while True:
        number += 1
        for side in _SIDES:
            yield CrashPoint(side=side, number=number)


def _report(reading: int, pid: int, seconds: float) -> tuple[dict[str, Any], bool]:
    """Return what a child told before its end, and whether it had to be killed for being late."""
    said, end, late = b"", time.monotonic() + seconds, False
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                os.kill(pid, signal.SIGKILL)
                late = True
                break
            piece = pipe.read(65536)
            if not piece:
                break
            said += piece
    os.waitpid(pid, 0)
    return (json.loads(said) if said and not late else {}), late
