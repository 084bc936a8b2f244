"""What a plugin opens for a workspace, a session or a call, and how it ends with it."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

R = TypeVar("R")
Closer = Callable[[], Awaitable[object] | None]


class Scope(Protocol):
    """Closes what it was given, newest first, each within seconds and whatever the others do."""

    def push(self, name: str, closer: Closer) -> None:
        """Call `closer` at the end, or at once when the scope is closed already."""
        ...

    def task(self, work: Coroutine[Any, Any, R], *, name: str = "") -> asyncio.Task[R]:
        """Run `work` until it ends, or is cancelled at the end. Raises `Conflict` when the scope is closed.

        A failure is logged by `name`, unless somebody awaits the task.
        """
        ...

    async def process(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdin: int = DEVNULL,
        stdout: int = DEVNULL,
        stderr: int = DEVNULL,
    ) -> Process:
        """Start a program that leads a process group; the group ends with it, and with the scope: SIGTERM, SIGKILL.

        Without `env` it gets `PATH`, `HOME` and the like, and none of the server's own variables.
        Raises `OSError` when it cannot be started, `Conflict` when the scope is closed.
        """
        ...
