"""One server's life: alone on its home, bound, started, ready, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Unpack

from .. import __version__
from ..errors import BadInput
from ..http import Face
from ..log import configure, reset
from ..presence import is_running, published, sole_server
from ..runtime import Kernel
from ..secrets import ensure_home
from ..settings import LogSettings, ServerSettings, load_kernel_settings
from ..sites import Wanted
from .listening import address_of, bind, is_loopback, serving, url_of

BUDGET = 10.0
TOLD_TO_END = 128 + signal.SIGTERM
TEARDOWN = 1.5
_LOOK = 0.5
_WATCHED = (signal.SIGTERM, signal.SIGINT)


def run(
    home: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    ready_fd: int | None = None,
    parent_pid: int | None = None,
    quiet: bool = False,
    env: Mapping[str, str] | None = None,
    **wanted: Unpack[Wanted],
) -> int:
    """Serve a home until a signal, a request or the end of the process `parent_pid`, and return the exit code.

    `host` and `port` go before the settings; `quiet` logs to the file alone. Once it listens, it prints a line
    `Halo <version> ready on <address>` and writes the url for this machine to the descriptor `ready_fd`. Raises
    `ServerRunning`, `Conflict` (port taken), `BadInput`, `BadFile`, `StorageUnavailable`, `NewerData`; each leaves
    nothing behind.
    """
    ensure_home(home)
    with sole_server(home), ExitStack() as stack:
        settings = load_kernel_settings(home, os.environ if env is None else env)
        start = partial(Kernel.start, home, env=env, settings=settings, **wanted)
        server, file = settings.of(ServerSettings), home / "global" / "logs" / "server.log"
        log = stack.enter_context(open(os.devnull, "w", encoding="utf-8")) if quiet else None
        configure(settings.of(LogSettings), redactor=settings.redactor, file=file, stream=log)
        stack.callback(reset)
        sock = stack.enter_context(bind(host or server.host, server.port if port is None else port))
        if server.password is None and not is_loopback(sock):
            said = "Without a password the server listens on this machine only, and this host lets others reach it."
            advice = "Set a password with `halo password`, or leave the host at 127.0.0.1."
            raise BadInput(said, field="server.host", advice=advice)
        life = _Life(host=host or server.host, sock=sock, ready_fd=ready_fd, parent_pid=parent_pid)
        stack.callback(life.deadline.met)
        asyncio.run(life.live(start))
    return 0


class _Deadline:
    """Ends the process for certain, whatever still runs, unless it is `met`."""

    _timer: threading.Timer | None = None

    def set(self, seconds: float, code: int) -> None:
        """End in so many seconds from now with `code`, in place of what was set before.

        The code is 0 when nothing is lost that way; `TOLD_TO_END`, as a shell tells it, when it has not crashed either.
        """
        self.met()
        self._timer = threading.Timer(seconds, _exit, [code])
        self._timer.daemon = True
        self._timer.start()

    def met(self) -> None:
        """Stop the clock: the process ends by itself."""
        if self._timer is not None:
            self._timer.cancel()


def _exit(code: int) -> None:
    if code:
        print("Halo did not stop in time; what was cut is taken up at the next start.", file=sys.stderr, flush=True)
    os._exit(code)


@dataclass(frozen=True, kw_only=True)
class _Life:
    host: str
    sock: socket.socket
    ready_fd: int | None
    parent_pid: int | None
    deadline: _Deadline = field(default_factory=_Deadline)

    async def live(self, start: Callable[..., Coroutine[Any, Any, Kernel]]) -> None:
        """Start the kernel and serve it until something ends it, its start included."""
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            self.deadline.set(BUDGET, TOLD_TO_END)
            loop.call_soon_threadsafe(stopping.set)

        _on_signal(stop)
        told = asyncio.create_task(_told_to_end(stopping, self.parent_pid), name="server.told")
        told.add_done_callback(lambda _: stop())
        starting = asyncio.create_task(start(stopping=stopping), name="server.start")
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            kernel = await starting
            try:
                await self._serve(kernel, told)
            finally:
                await kernel.close()
                self.deadline.set(TEARDOWN, 0)

    async def _serve(self, kernel: Kernel, told: asyncio.Task[Any]) -> None:
        """Serve until something stops the server; streams and connections have ended when it returns."""
        settings = kernel.settings.of(ServerSettings)
        face = Face(kernel, url=url_of(self.sock), address=address_of(self.sock), host=self.host)
        async with serving(face, self.sock, stopping=kernel.stopping, root_path=settings.root_path) as server:
            try:
                with published(kernel.home, face.presence):
                    kernel.host.spawn("duties", kernel.work())
                    self._announce(face, settings)
                    await asyncio.wait({server, told}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.deadline.set(BUDGET, TOLD_TO_END if told.done() else 1)
                # What is cut from here on must not fill the log with tracebacks.
                asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
                sys.unraisablehook = lambda unraisable: None

    def _announce(self, face: Face, settings: ServerSettings) -> None:
        with suppress(OSError):  # nobody reads it any longer
            print(f"Halo {__version__} ready on {face.presence.address}", flush=True)
            if sys.stdout.isatty():  # no log may hold it
                link = f"{face.presence.url}{settings.root_path}/auth/link?token={face.credentials.links.make()}"
                print(f"Sign in, once and within five minutes: {link}", flush=True)
            if settings.password is None:
                print("No password is set, so only this machine can reach it; `halo password` sets one.", flush=True)
        if self.ready_fd is not None:
            with suppress(OSError), open(self.ready_fd, "w", encoding="utf-8") as told:
                told.write(f"{face.presence.url}\n")


def _on_signal(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGTERM or SIGINT; the second ends the process at once, even if its loop is blocked."""

    def handle(number: int, frame: FrameType | None) -> None:
        for each in _WATCHED:
            signal.signal(each, signal.SIG_DFL)
        stop()

    for each in _WATCHED:
        signal.signal(each, handle)
    if hasattr(signal, "SIGURG"):  # a signal that the system gives to another thread wakes only a loop with a handler
        asyncio.get_running_loop().add_signal_handler(signal.SIGURG, int)


async def _told_to_end(stopping: asyncio.Event, parent: int | None) -> None:
    """Return when `stopping` is set or the process `parent` has ended; our own has when we are another one's child."""
    is_ours = os.getppid() == parent
    while not stopping.is_set() and (os.getppid() == parent if is_ours else parent is None or is_running(parent)):
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), parent and _LOOK)
