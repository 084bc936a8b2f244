"""What was opened ends with its scope: in order, in time, and whatever single parts do."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel.scopes import Scope


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a part take a moment instead of seconds."""
    monkeypatch.setattr("halo_kernel.scopes.SECONDS", 0.1)
    monkeypatch.setattr("halo_kernel.scopes._GRACE", 0.05)


@dataclass
class Deaf:
    """Work that ignores every cancel until it is let go."""

    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> None:
        while not self.let_go.is_set():
            with suppress(asyncio.CancelledError):
                await self.let_go.wait()


@pytest.fixture
async def deaf() -> AsyncIterator[Deaf]:
    work = Deaf()
    yield work
    work.let_go.set()
    await asyncio.sleep(0.01)


async def test_parts_close_newest_first_and_once() -> None:
    """Closers of both colours run in the reverse order, each once, however often the end is asked for."""
    closed: list[str] = []
    scope = Scope("s")

    async def late() -> None:
        await asyncio.sleep(0.01)
        closed.append("late")

    scope.push("plain", lambda: closed.append("plain"))
    scope.push("late", late)
    scope.push("last", lambda: closed.append("last"))
    cancelled = asyncio.create_task(scope.close())
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await asyncio.gather(scope.close(), scope.close()) == [[], []]
    assert closed == ["last", "late", "plain"]
    assert await scope.close() == []
    assert closed == ["last", "late", "plain"]
    assert cancelled.cancelled()


PARTS = st.sampled_from(["plain", "async", "raises", "raises async", "exits", "cancels itself", "hangs"])
TREES = st.recursive(st.lists(PARTS, max_size=3), lambda inner: st.lists(PARTS | inner, max_size=4), max_leaves=8)
FAILING = ("raises", "raises async", "exits", "hangs")


def closer(part: str, name: str, order: list[str]) -> Callable[[], object]:
    """Return a closer that notes its call and then behaves as it is called."""

    async def later() -> None:
        order.append(name)
        match part:
            case "raises async":
                raise LookupError(name)
            case "exits":
                raise SystemExit(1)
            case "cancels itself":
                raise asyncio.CancelledError
            case "hangs":
                await asyncio.sleep(60)
            case _:
                await asyncio.sleep(0)

    def now() -> None:
        order.append(name)
        if part == "raises":
            raise LookupError(name)

    return now if part in ("plain", "raises") else later


def grow(scope: Scope, tree: list[object], order: list[str], failing: list[str]) -> None:
    """Fill a scope with parts and child scopes; note the full names of those that will fail."""
    for number, each in enumerate(tree):
        if isinstance(each, list):
            grow(Scope(f"{scope.name}/{number}", parent=scope), each, order, failing)
        else:
            name = f"{scope.name}/{number}"
            scope.push(str(number), closer(str(each), name, order))  # type: ignore[arg-type]
            if each in FAILING:
                failing.append(name)


def expected(name: str, tree: list[object], order: list[str]) -> None:
    """Assert that a scope's parts closed newest first, after all parts of its children."""
    own = [f"{name}/{number}" for number, each in enumerate(tree) if not isinstance(each, list)]
    assert [each for each in order if each in own] == own[::-1]
    below = [each for each in order if each.startswith(f"{name}/") and each not in own]
    if own and below:
        assert max(map(order.index, below)) < min(map(order.index, own))
    for number, each in enumerate(tree):
        if isinstance(each, list):
            expected(f"{name}/{number}", each, order)


@settings(max_examples=60, deadline=None)
@given(TREES)
async def test_no_part_prevents_another(tree: list[object]) -> None:
    """S15: whatever parts raise or hang, all close in the reverse order, children first; each failure is named once."""
    order: list[str] = []
    failing: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("halo_kernel.scopes.SECONDS", 0.02)
        scope = Scope("s")
        grow(scope, tree, order, failing)
        left = await scope.close()
    assert sorted(left) == sorted(failing)
    assert len(order) == len(set(order))
    expected("s", tree, order)


def told(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [str(record.msg) for record in caplog.records if name in str(record.msg)]


async def test_a_failure_is_logged_once_with_its_reason(quick: None, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the part and says whether it raised or hung."""
    scope = Scope("plugin x")
    scope.push("socket", lambda: 1 // 0)
    scope.push("stream", lambda: asyncio.sleep(60))
    with caplog.at_level(logging.WARNING):
        assert await scope.close() == ["plugin x/stream", "plugin x/socket"]
        await scope.close()
    (socket,), (stream,) = told(caplog, "plugin x/socket"), told(caplog, "plugin x/stream")
    assert "ZeroDivisionError" in socket
    assert "not done after" in stream


async def test_the_deaf_are_left_behind_by_name(quick: None, deaf: Deaf, caplog: pytest.LogCaptureFixture) -> None:
    """A task or a closer that ignores its cancel costs its seconds and no more, and is named."""
    scope = Scope("s")
    closed: list[str] = []
    scope.push("first", lambda: closed.append("first"))
    scope.push("closer", deaf)
    task = scope.task(deaf(), name="task")
    await asyncio.sleep(0)
    began = time.monotonic()
    assert await scope.close() == ["s/task", "s/closer"]
    assert time.monotonic() - began < 1
    assert closed == ["first"]
    assert not task.done()
    assert any("left behind" in line for line in told(caplog, "s/task"))
    deaf.let_go.set()
    await asyncio.wait_for(task, 1)


async def test_many_children_take_the_time_of_one(quick: None) -> None:
    """S14: children know nothing of each other, so their hanging parts are waited for together."""
    scope = Scope("s")
    for number in range(20):
        Scope(f"s/{number}", parent=scope).push("hangs", lambda: asyncio.sleep(60))
    began = time.monotonic()
    assert len(await scope.close()) == 20
    assert time.monotonic() - began < 1


async def test_a_closed_child_is_forgotten() -> None:
    """A parent that lives long does not keep the children and tasks that ended before it."""
    scope = Scope("forgetful")
    for _ in range(5):
        child = Scope("forgetful/child", parent=scope)
        child.push("x", lambda: None)
        await child.close()
        await scope.task(asyncio.sleep(0))
    del child
    gc.collect()
    assert [each for each in gc.get_objects() if isinstance(each, Scope) and each.name.startswith("forgetful")] == [
        scope
    ]
    assert not scope._parts
    assert await scope.close() == []


async def test_what_a_closed_scope_is_given_closes_at_once() -> None:
    """A closer or a task that comes too late is not leaked; the task never begins."""
    scope = Scope("s")
    await scope.close()
    closed: list[str] = []

    async def work() -> None:
        closed.append("worked")

    scope.push("closer", lambda: closed.append("closer"))
    task = scope.task(work())
    await asyncio.wait({task}, timeout=1)
    assert task.cancelled()
    assert await scope.close() == []
    assert closed == ["closer"]


LATE = """
import asyncio
from halo_kernel.scopes import Scope
async def work(): raise AssertionError("it began")
async def main():
    scope = Scope("s")
    await scope.close()
    scope.push("closer", lambda: None)
    await asyncio.wait({scope.task(work())})
asyncio.run(main())
"""


def test_a_task_that_never_began_is_no_warning() -> None:
    """Python has nothing to say about the coroutine of a task that came too late."""
    done = subprocess.run([sys.executable, "-W", "always", "-c", LATE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_child_of_a_closed_scope_is_closed() -> None:
    """What is pushed to it closes at once."""
    scope = Scope("s")
    await scope.close()
    closed: list[str] = []
    Scope("s/child", parent=scope).push("its", lambda: closed.append("its"))
    await asyncio.sleep(0.01)
    assert closed == ["its"]


async def test_what_comes_during_the_end_is_closed_too() -> None:
    """A part that a closer pushes is closed before the older ones, and before `close` returns."""
    scope = Scope("s")
    closed: list[str] = []
    scope.push("old", lambda: closed.append("old"))

    async def opens_more() -> None:
        scope.push("new", lambda: closed.append("new"))
        await asyncio.sleep(0)

    scope.push("opens more", opens_more)
    await scope.close()
    assert closed == ["new", "old"]


async def test_a_part_that_closes_its_own_scope_cannot_lock_it(quick: None) -> None:
    """A closer or a task that asks for the end it is part of does not wait for itself for ever."""
    scope = Scope("s")
    closed: list[str] = []
    scope.push("old", lambda: closed.append("old"))
    scope.push("again", scope.close)

    async def end() -> None:
        await scope.close()

    task = scope.task(end())
    await asyncio.wait({task}, timeout=1)
    assert await scope.close() == ["s/again"]
    assert closed == ["old"]


async def test_a_task_ends_with_its_scope() -> None:
    """A task is cancelled and may clean up; one that ended before left its result and no trace."""
    scope = Scope("s")
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    async def answer() -> int:
        return 42

    task = scope.task(work(), name="work")
    assert await scope.task(answer()) == 42
    assert await scope.close() == []
    assert task.cancelled()
    assert cleaned == [True]


async def test_a_failed_task_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A failure that nobody awaits is logged with the name; one at the end is a leftover."""
    scope = Scope("s")

    async def fails() -> None:
        raise LookupError("here")

    async def fails_late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise LookupError("there")

    scope.task(fails(), name="early")
    scope.task(fails_late(), name="late")
    await asyncio.sleep(0.01)
    gc.collect()
    assert any("s/early" in record.getMessage() for record in caplog.records)
    assert await scope.close() == ["s/late"]
    assert len(told(caplog, "s/late")) == 1


TREE = """
import os, signal, subprocess, sys, time
stubborn = sys.argv[1] == "stubborn"
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
print(os.getpid(), child.pid, flush=True)
if sys.argv[1] != "leaves":
    time.sleep(60)
"""


def alive(process: int) -> bool:
    """Tell whether a process exists, zombies included."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError), open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z" or os.getpid() == _parent(process)
    return True


def _parent(process: int) -> int:
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[1])


async def gone(*processes: int) -> bool:
    """Wait up to two seconds for processes to be gone; a zombie of ours is not."""
    for _ in range(100):
        if not any(map(alive, processes)):
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")
@pytest.mark.parametrize("how", ["obeys", "stubborn", "leaves"])
async def test_a_process_ends_with_its_group(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """SIGTERM, then SIGKILL reach the program and its children, also when it ends by itself; no zombie stays."""
    monkeypatch.setattr("halo_kernel.scopes._GRACE", 0.5)
    scope = Scope("s")
    process = await scope.process([sys.executable, "-c", TREE, how], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pids = [int(each) for each in (await process.stdout.readline()).split()]
    assert pids[0] == process.pid
    if how == "leaves":
        assert await gone(*pids)
    else:
        assert all(map(alive, pids))
    assert await scope.close() == []
    assert await gone(*pids)


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")
async def test_a_process_sees_nothing_of_the_server_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an environment of its own it has PATH and the like, no secret, and streams that lead nowhere."""
    monkeypatch.setenv("HALO_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    scope = Scope("s")
    code = "import os, sys, json; print(json.dumps([sorted(os.environ), sys.stdin.read()]))"
    process = await scope.process([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = (await process.stdout.read()).decode()
    assert "PATH" in said
    assert "HALO" not in said
    assert "OPENAI" not in said
    given = await scope.process([sys.executable, "-c", code], stdout=subprocess.PIPE, env={"MINE": "1"})
    assert given.stdout is not None
    assert '"MINE"' in (await given.stdout.read()).decode()
    assert await scope.close() == []


async def test_a_program_that_does_not_exist_leaves_nothing() -> None:
    """The error is the system's, and the scope has no part of it."""
    scope = Scope("s")
    with pytest.raises(FileNotFoundError):
        await scope.process(["/nonexistent/program"])
    assert await scope.close() == []


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")
async def test_a_process_started_while_the_scope_ends_ends_too() -> None:
    """A program that starts in a scope that is closed meanwhile does not outlive it."""
    scope = Scope("s")
    starting = asyncio.create_task(scope.process([sys.executable, "-c", "import time; time.sleep(60)"]))
    await asyncio.sleep(0)
    await scope.close()
    process = await starting
    assert await gone(process.pid)
    assert await scope.close() == []
