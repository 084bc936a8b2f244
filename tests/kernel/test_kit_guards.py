"""Guards of the kit: what is left behind and what blocks the loop is named, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from starlette.concurrency import run_in_threadpool

from halo_kernel.testing import LeakGuard, LoopWatch, guarded
from halo_kernel.testing.leaks import processes_by_ps

SOON = 0.1


async def forgotten() -> None:
    await asyncio.sleep(600)


async def test_a_task_is_named_with_where_it_waits() -> None:
    """A task that is left is told by its name and by the line where it waits."""
    guard = LeakGuard()
    task = asyncio.create_task(forgotten(), name="poller")
    await asyncio.sleep(0)
    (told,) = await guard.left(settle=SOON)
    assert told.startswith(f"task 'poller', waiting at {__file__}:")
    assert "in forgotten: await asyncio.sleep(600)" in told
    task.cancel()
    assert await guard.left() == []


async def test_a_thread_is_named_with_where_it_is() -> None:
    """A thread that is left is told by its name and by the line where it stands."""
    guard, end = LeakGuard(), threading.Event()
    thread = threading.Thread(target=lambda: end.wait(60), name="watcher", daemon=True)
    thread.start()
    (told,) = await guard.left(settle=SOON)
    assert told.startswith(f"thread 'watcher', at {__file__}:")
    end.set()
    assert await guard.left() == []


async def test_files_and_sockets_are_named(tmp_path: Path) -> None:
    """An open file is told by its path, a socket by its address."""
    guard = LeakGuard()
    with (tmp_path / "notes").open("w"), socket.create_server(("127.0.0.1", 0)) as server:
        left = await guard.left(settle=SOON)
        port = server.getsockname()[1]
    if sys.platform == "linux":
        assert left == [f"open file {tmp_path / 'notes'}", f"open socket 127.0.0.1:{port}"]
    assert len(left) == 2
    assert await guard.left() == []


async def test_child_processes_are_named_running_or_ended() -> None:
    """A child is told by its command, and one that ended and was not waited for as such."""
    guard = LeakGuard()
    child = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220
    (told,) = await guard.left(settle=SOON)
    assert told == f"process {child.pid} (sleep 60)"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    (told,) = await guard.left(settle=SOON)
    assert told.startswith(f"process {child.pid} (")
    if sys.platform == "linux":
        assert told.endswith("ended and never waited for")
    child.wait()
    assert await guard.left() == []


@pytest.mark.needs("ps")
def test_children_are_found_without_proc() -> None:
    """Where there is no /proc, `ps` lists the children, itself left out."""
    with subprocess.Popen(["sleep", "60"]) as child:
        found = {key: describe() for key, describe in processes_by_ps()}
        child.kill()
    assert found.get(str(child.pid)) == f"process {child.pid} (sleep 60)"
    assert not [told for told in found.values() if "(ps " in told]


async def test_what_ends_by_itself_is_no_leak() -> None:
    """Work that is about to end, and idle workers of the loop's own pool, are not told."""
    guard = LeakGuard()
    task = asyncio.create_task(asyncio.sleep(0.2))
    await asyncio.to_thread(time.sleep, 0)
    await run_in_threadpool(time.sleep, 0)
    assert await guard.left() == []
    assert task.done()


async def test_a_worker_that_is_busy_is_a_leak() -> None:
    """A call in the loop's pool that goes on is told."""
    guard, end = LeakGuard(), threading.Event()
    asyncio.get_running_loop().run_in_executor(None, end.wait, 60)
    left = await guard.left(settle=SOON)
    end.set()
    (told,) = left
    assert told.startswith("thread 'asyncio_")
    assert await guard.left() == []


async def test_kinds_can_be_left_out() -> None:
    """What may leak is not told; a kind that there is not is refused."""
    guard = LeakGuard(may_leak=["task"])
    task = asyncio.create_task(forgotten())
    assert await guard.left(settle=SOON) == []
    task.cancel()
    with pytest.raises(ValueError, match="no leaks of the kind sockets, only task, thread, file, process"):
        LeakGuard(may_leak=["sockets"])


# blocking


def block(seconds: float) -> None:
    time.sleep(seconds)


async def rude() -> None:
    block(0.5)


async def test_a_blocking_step_is_named_with_task_and_line() -> None:
    """A step that blocks the loop is told by its task, its line and its stack."""
    with LoopWatch(limit=0.2) as watch:
        await asyncio.create_task(rude(), name="impolite")
        await asyncio.sleep(0.05)
    (found,) = watch.blocks
    assert found.task == "impolite"
    assert 0.2 <= found.seconds < 0.6
    assert found.place.startswith(f"{__file__}:")
    assert found.place.endswith("in block: time.sleep(seconds)")
    assert "in rude: block(0.5)" in found.stack[-2]
    assert found.stack[-1] == found.place
    assert str(found).startswith("task 'impolite' blocked the event loop for 0.")


async def test_a_callback_is_named_too() -> None:
    """A plain callback that blocks the loop is told by its line."""
    with LoopWatch(limit=0.2) as watch:
        asyncio.get_running_loop().call_soon(lambda: block(0.5))
        await asyncio.sleep(0.7)
    (found,) = watch.blocks
    assert (found.task, "test_a_callback_is_named_too" in found.stack[0]) == ("none", True)


async def test_many_short_steps_are_no_block() -> None:
    """A loop that is busy with short steps lets others run: nothing is told."""

    async def short() -> None:
        block(0.05)

    with LoopWatch(limit=0.2) as watch:
        await asyncio.gather(*(short() for _ in range(12)))
    assert watch.blocks == []


async def test_a_pause_is_not_counted() -> None:
    """What blocks while the watch is paused is not told, and what comes after it is."""
    with LoopWatch(limit=0.2) as watch:
        with watch.paused():
            block(0.4)
        await asyncio.sleep(0.05)
        assert watch.blocks == []
        await rude()
        await asyncio.sleep(0.05)
    assert len(watch.blocks) == 1


async def test_waiting_is_no_block() -> None:
    """A loop that only waits is told of nothing."""
    with LoopWatch(limit=0.1) as watch:
        await asyncio.sleep(0.5)
    assert watch.blocks == []


async def test_both_guards_tell_all_at_once() -> None:
    """`guarded` raises one error that tells every block and everything that is left."""
    with pytest.raises(AssertionError) as caught:
        async with guarded(limit=0.2, settle=SOON):
            task = asyncio.create_task(forgotten(), name="poller")
            await rude()
            await asyncio.sleep(0.05)
    task.cancel()
    text = str(caught.value)
    assert "blocked the event loop" in text
    assert "left behind: task 'poller'" in text
    async with guarded(limit=None, may_leak=["task"], settle=SOON):
        task = asyncio.create_task(forgotten())
        await rude()
    task.cancel()
