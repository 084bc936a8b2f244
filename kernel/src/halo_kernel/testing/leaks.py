"""What a test leaves behind: tasks, threads, open files and child processes, each named with where it is."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_args

from ..sqlite import is_own_file
from .places import current_frames, frames_of, frames_of_coroutine, place_of

Kind = Literal["task", "thread", "file", "process"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_Found = dict[tuple[Kind, object], Callable[[], str]]
_Each = Iterator[tuple[object, Callable[[], str]]]

_POOLS = ("asyncio_", "AnyIO worker thread")
_IDLE = (("concurrent/futures/thread.py", "_worker"), ("anyio/_backends/_asyncio.py", "run"))
_SETTLE_SECONDS = 2.0
_STEP = 0.02


class LeakGuard:
    """What there is when it is made, on a running loop; `left` names what came since and is still there."""

    def __init__(self, *, may_leak: Collection[str] = ()) -> None:
        unknown = set(may_leak) - set(KINDS)
        if unknown:
            raise ValueError(f"there are no leaks of the kind {', '.join(sorted(unknown))}, only {', '.join(KINDS)}")
        self._kinds: list[Kind] = [kind for kind in KINDS if kind not in may_leak]
        self._before = set(_present(self._kinds))

    async def left(self, *, settle: float = _SETTLE_SECONDS) -> list[str]:
        """Return a line for each thing that is left; what ends by itself within `settle` seconds is not."""
        loop = asyncio.get_running_loop()
        end = loop.time() + settle
        while found := self._new():
            gc.collect()  # what only waits for the collector is not held by anybody
            if loop.time() > end:
                break
            await asyncio.sleep(_STEP)
        return sorted(describe() for describe in found.values())

    def _new(self) -> _Found:
        return {key: found for key, found in _present(self._kinds).items() if key not in self._before}


def _present(kinds: Collection[Kind]) -> _Found:
    sources: dict[Kind, Callable[[], _Each]] = {
        "task": _tasks,
        "thread": _threads,
        "file": _files,
        "process": _processes,
    }
    return {(kind, key): describe for kind in kinds for key, describe in sources[kind]()}


def _tasks() -> _Each:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        yield task, partial(_told_task, task)


def _told_task(task: asyncio.Task[Any]) -> str:
    return f"task {task.get_name()!r}, waiting at {place_of(frames_of_coroutine(task.get_coro()))}"


def _threads() -> _Each:
    frames = current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if not (thread.name.startswith(_POOLS) and _is_idle_worker(frame)):
            yield thread, partial(_told_thread, thread)


def _told_thread(thread: threading.Thread) -> str:
    return f"thread {thread.name!r}, at {place_of(frames_of(current_frames().get(thread.ident or 0)))}"


def _is_idle_worker(frame: FrameType | None) -> bool:
    """Tell whether a worker of the loop's own pool, or of AnyIO's, waits for work; the loop ends it."""
    frames = [each.f_code for each in frames_of(frame)]
    working = (each for each in frames if not each.co_filename.endswith(("threading.py", "queue.py")))
    place = next(((code.co_filename.replace(os.sep, "/"), code.co_name) for code in working), ("", ""))
    return any(place[0].endswith(path) and place[1] == name for path, name in _IDLE)


def _files() -> _Each:
    folder = next((each for each in ("/proc/self/fd", "/dev/fd") if os.path.isdir(each)), None)
    for name in os.listdir(folder) if folder else ():
        with suppress(OSError, ValueError):  # the listing's own is gone already
            number = int(name)
            found = os.fstat(number)
            if is_own_file(number):  # of a database that is open, whose threads would tell
                continue
            yield (number, found.st_dev, found.st_ino), partial(_told_file, number)


def _told_file(number: int) -> str:
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            with socket.socket(fileno=os.dup(number)) as sock:
                return f"open socket {_address(sock.getsockname)}{_address(sock.getpeername, ' connected to ')}"
        return f"open file {os.readlink(f'/proc/self/fd/{number}')}"
    except OSError:
        return f"open descriptor {number}"


def _address(ask: Callable[[], Any], before: str = "") -> str:
    try:
        found = ask()
    except OSError:
        return ""
    return before + (f"{found[0]}:{found[1]}" if isinstance(found, tuple) else repr(found))


def _processes() -> _Each:
    return _processes_by_proc() if os.path.exists("/proc/self/stat") else processes_by_ps()


def _processes_by_proc() -> _Each:
    own = str(os.getpid())
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            head, _, rest = (folder / "stat").read_text().rpartition(")")
            state, parent, *fields = rest.split()
            if parent == own:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                ended = ", ended and never waited for" if state == "Z" else ""
                told = f"process {folder.name} ({command or head.partition('(')[2]}){ended}"
                yield (folder.name, fields[17]), partial(str, told)  # with its start, for numbers are used again


def processes_by_ps() -> _Each:
    """Yield the children of this process where there is no /proc; none where there is no `ps` either."""
    try:
        listing = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,command="], stdout=subprocess.PIPE, text=True)
    except OSError:
        return
    output, _ = listing.communicate()
    for line in output.splitlines():
        pid, parent, command = (*line.split(None, 2), "", "")[:3]
        if parent == str(os.getpid()) and pid != str(listing.pid):
            yield pid, partial(str, f"process {pid} ({command})")
