"""A kernel of one's own, in a thread with its own loop, behind the same routes on a private Unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from pathlib import Path

    from ..presence import Presence

    _Up = Future[tuple[Presence, Callable[[], None]]]

END_SECONDS = 12.0
_LONGEST_FOLDER = 70


@contextmanager
def embedded(home: Path, **options: Any) -> Generator[Presence]:
    """Run a kernel for as long as the context lasts; what it was doing is taken up by the next one.

    `options` are those of `Kernel.start`, whose errors are raised.
    """
    deep = len(os.fsencode(tempfile.gettempdir())) > _LONGEST_FOLDER  # a socket's path must not be long
    with tempfile.TemporaryDirectory(
        prefix="halo-", dir="/tmp" if deep else None, ignore_cleanup_errors=True
    ) as folder:
        up: _Up = Future()
        work = _live(home, f"{folder}/kernel.sock", options, up)
        thread = threading.Thread(target=_run, args=(work, up), name="halo.embedded", daemon=True)
        thread.start()
        try:
            presence, stop = up.result()
            try:
                yield presence
            finally:
                stop()
        finally:
            thread.join(END_SECONDS)


def _run(work: Coroutine[Any, Any, None], up: _Up) -> None:
    try:
        asyncio.run(work)
    except BaseException as error:
        if not up.done():
            up.set_exception(error)


async def _live(home: Path, path: str, options: dict[str, Any], up: _Up) -> None:
    from ..http import make_face
    from ..log import configure
    from ..runtime import Kernel
    from ..secrets import ensure_home
    from ..server.listening import hush, serving
    from ..settings import LogSettings, load_kernel_settings

    loop = asyncio.get_running_loop()
    ensure_home(home)
    configure(load_kernel_settings(home, os.environ).of(LogSettings))
    kernel = await Kernel.start(home, embedded=True, **options)

    def stop() -> None:
        with suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(kernel.stopping.set)

    try:
        face = make_face(kernel, url=f"unix:{path}")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(path)
        sock.listen()
        async with serving(face.app, sock, stopping=kernel.stopping):
            up.set_result((face.presence, stop))
            await kernel.stopping.wait()
    finally:
        loop.set_exception_handler(hush)
        await kernel.close()
