"""What a plugin opens for a workspace, a session or a call, and how it ends with it."""

# pyright: reportReturnType=false
# The docstring is the whole body of a protocol's method.
from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

R = TypeVar("R")
Closer = Callable[[], Awaitable[object] | None]


class Scope(Protocol):
    """Closes what it was given, newest first, each within seconds and whatever the others do.

    What a closed scope is given is closed at once.
    """

    def push(self, name: str, closer: Closer) -> None:
        """Call `closer` at the end."""

    def task(self, work: Coroutine[Any, Any, R], *, name: str = "") -> asyncio.Task[R]:
        """Run `work` until it ends, or is cancelled at the end. A failure nobody awaits is logged with the name."""

    async def process(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> Process:
        """Start a program that leads a process group; the group ends with it, and with the scope: SIGTERM, SIGKILL.

        Without `env` it gets `PATH`, `HOME` and the like, and none of the server's own variables. `options` (`cwd`,
        `stdin`, `stdout`, `stderr`) are those of `asyncio.create_subprocess_exec`; its streams lead nowhere otherwise.
        Raises `OSError` when it cannot be started.
        """
