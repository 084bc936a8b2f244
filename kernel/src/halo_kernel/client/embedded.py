"""A kernel of one's own, in a thread with its own loop, behind the same routes on a private Unix socket."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from .wire import Place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

END_SECONDS = 12.0
_LONGEST_PATH = 100


class Embedded:
    """Runs a kernel until it is closed. `options` are those of `Kernel.start`."""

    def __init__(self, home: Path, options: Mapping[str, Any]) -> None:
        self._home = home
        self._options = options
        self._folder = _private_folder()
        self._up: Future[Place] = Future()
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._live, name="halo.embedded", daemon=True)

    def start(self) -> Place:
        """Bring the kernel up and return where it listens; raises what kept it from starting."""
        self._thread.start()
        try:
            return self._up.result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the kernel; what it runs is taken up by the next one."""
        if self._stop is not None:
            loop, stop = self._stop
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
        self._thread.join(END_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            if not self._up.done():
                self._up.set_exception(error)

    async def _run(self) -> None:
        from ..runtime import Kernel
        from ..server.face import app_of, credentials_of
        from ..server.listening import hush, serve

        kernel = await Kernel.start(self._home, embedded=True, **self._options)
        try:
            self._stop = (asyncio.get_running_loop(), kernel.stopping)
            credentials = credentials_of(kernel)
            sock, place = self._listen(credentials.token)
            app = app_of(kernel, credentials, embedded=True, on_started=lambda: self._up.set_result(place))
            await serve(app, sock, stopping=kernel.stopping)
        finally:
            asyncio.get_running_loop().set_exception_handler(hush)
            await kernel.close()

    def _listen(self, token: str) -> tuple[socket.socket, Place]:
        if not hasattr(socket, "AF_UNIX"):  # Windows
            sock = socket.create_server(("127.0.0.1", 0))
            return sock, Place(url=f"http://127.0.0.1:{sock.getsockname()[1]}", token=token)
        path = str(self._folder / "kernel.sock")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(path)
        sock.listen()
        return sock, Place(path=path, token=token)


def _private_folder() -> Path:
    """Return a new folder that only this user may enter; a socket's path in it must not be long."""
    folder = Path(tempfile.mkdtemp(prefix="halo-"))
    if len(os.fsencode(folder)) > _LONGEST_PATH - len("/kernel.sock") and os.name == "posix":
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="halo-", dir="/tmp"))
    return folder
