"""A kernel of one's own, in a thread with its own loop, behind the same routes on a private Unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Unpack

from halo_kernel import (
    Face,
    Kernel,
    LogSettings,
    Presence,
    Wanted,
    configure,
    ensure_home,
    load_kernel_settings,
    serving,
)

END_SECONDS = 12.0


@contextmanager
def running(home: Path, wanted: Wanted) -> Generator[Presence]:
    """Run a kernel for as long as the context lasts; what it was doing is taken up by the next one.

    Raises the errors of `Kernel.start`.
    """
    deep = len(os.fsencode(tempfile.gettempdir())) > 70  # a socket's path must not be long
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="halo.embedded", daemon=True)
    thread.start()
    try:
        with tempfile.TemporaryDirectory(prefix="halo-", dir="/tmp" if deep else None) as folder:
            kernel = _embedded(home, f"{folder}/kernel.sock", **wanted)
            try:
                presence = asyncio.run_coroutine_threadsafe(kernel.__aenter__(), loop).result()
            except BaseException:  # Ctrl-C too
                with suppress(TimeoutError):
                    asyncio.run_coroutine_threadsafe(_cut(), loop).exception(END_SECONDS)
                raise
            try:
                yield presence
            finally:
                with suppress(TimeoutError):  # what is deaf ends with this process
                    asyncio.run_coroutine_threadsafe(kernel.__aexit__(None, None, None), loop).exception(END_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1.0)
        if not loop.is_running():
            loop.close()


async def _cut() -> None:
    """Cancel all that runs, and wait until it has ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _embedded(home: Path, path: str, **wanted: Unpack[Wanted]) -> AsyncGenerator[Presence]:
    """Run a kernel that answers on the Unix socket `path` alone, for as long as the context lasts."""
    ensure_home(home)
    bare = load_kernel_settings(home, os.environ)
    configure(bare.of(LogSettings), redactor=bare.redactor)
    kernel = await Kernel.start(home, embedded=True, **wanted)
    configure(kernel.settings.of(LogSettings), redactor=kernel.settings.redactor)  # again: it knows plugins' secrets
    try:
        face = Face(kernel, url=f"unix:{path}")
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(path)
        sock.listen()
        async with serving(face, sock, stopping=kernel.stopping):
            yield face.presence
    finally:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # what is cut is taken up later
        await kernel.close()
