"""What was opened for a workspace, a session or a call ends with it, newest first, whatever single parts do."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from .contracts import Closer
from .log import logger
from .supervisor import contained, end_task, given

R = TypeVar("R")

SECONDS = 5.0
"""How long each part may take to close; then it is cancelled."""
_GRACE = 2.0
_LOOK = 0.02
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")


class Scope:
    """Closes what it was given, newest first, each within seconds and whatever the others do.

    What a closed scope is given is closed at once. It is closed before anything of its `parent`.
    """

    def __init__(self, name: str, *, parent: Scope | None = None) -> None:
        self.name = name
        self.leftovers: list[str] = []
        self._children: dict[Scope, None] = {}
        self._siblings = {} if parent is None else parent._children
        self._siblings[self] = None
        self._parts: dict[object, tuple[str, Closer | asyncio.Task[Any]]] = {}
        self._closing: asyncio.Task[None] | None = None
        if parent is not None and parent._closing is not None:
            self._closing = asyncio.create_task(self._close())

    def push(self, name: str, closer: Closer) -> None:
        """Call `closer` at the end."""
        self._add(f"{self.name}/{name}", closer)

    def task(self, work: Coroutine[Any, Any, R], *, name: str = "") -> asyncio.Task[R]:
        """Run `work` until it ends, or is cancelled at the end. A failure nobody awaits is logged with the name."""
        name = f"{self.name}/{name or getattr(work, '__qualname__', 'task')}"

        def ended(_: object) -> None:
            work.close()  # it may have been cancelled before its first step
            self._parts.pop(key, None)

        task = asyncio.create_task(contained(work), name=name)
        key = self._add(name, task)
        task.add_done_callback(ended)
        return task

    async def process(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> Process:
        """Start a program that leads a process group; the group ends with it, and with the scope: SIGTERM, SIGKILL.

        Without `env` it gets `PATH`, `HOME` and the like, and none of the server's own variables. `options` (`cwd`,
        `stdin`, `stdout`, `stderr`) are those of `asyncio.create_subprocess_exec`; its streams lead nowhere otherwise.
        Raises `OSError` when it cannot be started.
        """
        if env is None:
            env = {name: value for name, value in os.environ.items() if name in _PASSED_ON}
        streams: dict[str, Any] = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL, **options}
        process = await asyncio.create_subprocess_exec(*argv, env=env, start_new_session=True, **streams)
        self.task(_keep(process), name=str(argv[0]))
        return process

    async def close(self) -> Sequence[str]:
        """Close children, then parts, newest first and once; return the names of all that failed or did not end."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)
        return self.leftovers

    def _add(self, name: str, part: Closer | asyncio.Task[Any]) -> object:
        key = object()
        self._parts[key] = name, part
        if self._closing is not None and self._closing.done():
            self._closing = asyncio.create_task(self._close())
        return key

    async def _close(self) -> None:
        while self._children or self._parts:
            if self._children:  # side by side: none of them knows of another
                for left in await asyncio.gather(*(child.close() for child in self._children)):
                    self.leftovers += left
            else:
                await self._end(*self._parts.popitem()[1])
        self._siblings.pop(self, None)

    async def _end(self, name: str, part: Closer | asyncio.Task[Any]) -> None:
        task = asyncio.create_task(contained(given(part))) if callable(part) else part
        if task is part:
            task.cancel()
        await asyncio.wait({task}, timeout=SECONDS)
        if task.done():
            error = None if task.cancelled() else task.exception()
        else:
            error = TimeoutError(f"not done after {SECONDS:g} s")
            await end_task(task, name=name, within=_GRACE)
        if error is not None:
            self.leftovers.append(name)
            logger("scopes").warning("left over", part=name, reason=repr(error))


async def _keep(process: Process) -> None:
    """Wait for a process; whether it ends by itself or with a scope, its group ends with it."""
    try:
        await process.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):  # nobody is left; on macOS, zombies are forbidden
                os.killpg(process.pid, number)
                for _ in range(round(_GRACE / _LOOK)):
                    await asyncio.sleep(_LOOK)
                    os.killpg(process.pid, 0)
