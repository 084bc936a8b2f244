"""One server's life: alone on its home, bound, started, ready, stopped."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import BadInput
from ..hookspecs import runtime_started
from ..log import configure, logger, reset
from ..presence import Presence, published, sole_server
from ..runtime import Kernel
from ..secrets import ensure_home
from ..settings import LoadedSettings, LogSettings, ServerSettings, load_kernel_settings
from .face import app_of, credentials_of
from .listening import bind, hush, is_loopback, serve, url_of
from .signals import Deadline, parent_ended, stopped_by_signals

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
    from pathlib import Path

    _Start = Callable[[], Coroutine[Any, Any, Kernel]]

_MARGIN = 0.5
_TEARDOWN = 1.5


def run(
    home: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    ready_fd: int | None = None,
    parent_pid: int | None = None,
    without: Collection[str] = (),
    only: Collection[str] | None = None,
    strict: bool = False,
    extra: Mapping[str, object] | None = None,
    discover: bool = True,
    env: Mapping[str, str] | None = None,
) -> int:
    """Serve a home until a signal, a request or the end of the process `parent_pid`, and return the exit code.

    `host` and `port` go before the settings. Once it listens, it prints a line `Halo <version> ready on <url>` and
    writes the url to the descriptor `ready_fd`. Raises `ServerRunning`, `Conflict` (port taken), `BadInput`, `BadFile`,
    `StorageUnavailable`, `NewerData`; each leaves nothing behind.
    """
    start = partial(
        Kernel.start, home, without=without, only=only, strict=strict, extra=extra or {}, discover=discover, env=env
    )
    ensure_home(home)
    with sole_server(home), ExitStack() as stack:
        settings = load_kernel_settings(home, os.environ if env is None else env)
        server = settings.of(ServerSettings)
        _log_to_file(settings)
        stack.callback(reset)
        sock = stack.enter_context(bind(host or server.host, server.port if port is None else port))
        has_password = server.password is not None
        _check_reach(sock, has_password=has_password)
        life = _Life(home, sock, start, host=host or server.host, ready_fd=ready_fd, has_password=has_password)
        return life.live(parent_pid)


class _Life:
    def __init__(
        self, home: Path, sock: socket.socket, start: _Start, *, host: str, ready_fd: int | None, has_password: bool
    ) -> None:
        self._home = home
        self._host = host
        self._sock = sock
        self._start = start
        self._ready_fd = ready_fd
        self._has_password = has_password
        self._deadline = Deadline()
        self._log = logger("server")

    def live(self, parent_pid: int | None) -> int:
        """Run from start to end on a loop of its own."""
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            stop = asyncio.Event()

            def end() -> None:
                self._deadline.begin()
                loop.call_soon_threadsafe(stop.set)

            with stopped_by_signals(end):
                runner.run(self._run(stop, parent_pid))
        self._deadline.met()
        return 0

    async def _run(self, stop: asyncio.Event, parent_pid: int | None) -> None:
        watch: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait(), name="server.signal")]
        if parent_pid is not None:
            watch.append(asyncio.create_task(parent_ended(parent_pid), name="server.parent"))
        starting = asyncio.create_task(self._start(), name="server.start")
        await asyncio.wait({starting, *watch}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._serve(await starting, watch)
        finally:
            for task in watch:
                task.cancel()

    async def _serve(self, kernel: Kernel, watch: Sequence[asyncio.Task[object]]) -> None:
        try:
            await self._listen(kernel, watch)
        finally:
            left = self._deadline.begin()
            kernel.stopping.set()
            closing = asyncio.create_task(kernel.close(), name="server.close")
            await asyncio.wait({closing}, timeout=left - _MARGIN)
            if not closing.done():
                self._log.error("the kernel did not close in time")
            else:
                self._deadline.safe = True
                self._deadline.begin(_TEARDOWN)
                closing.result()

    async def _listen(self, kernel: Kernel, watch: Sequence[asyncio.Task[object]]) -> None:
        """Serve until something stops the server; streams and connections have ended when it returns."""
        _log_to_file(kernel.settings)  # again: the plugins' secrets are known now
        settings = kernel.settings.of(ServerSettings)
        url, credentials, up = url_of(self._sock), credentials_of(kernel), asyncio.Event()
        app = app_of(kernel, credentials, host=self._host, url=url, on_started=up.set)
        serving = asyncio.create_task(
            serve(app, self._sock, stopping=kernel.stopping, root_path=settings.root_path), name="server.serve"
        )
        try:
            await first_of(serving, up.wait())
            if not serving.done():
                with published(self._home, _presence(url, credentials.token, kernel)):
                    kernel.host.spawn("recovery", kernel.recover())
                    kernel.hooks.notify(runtime_started, host=kernel.host)
                    self._announce(url)
                    await first_of(serving, kernel.stopping.wait(), *watch)
        finally:
            self._deadline.begin()
            asyncio.get_running_loop().set_exception_handler(hush)
            kernel.stopping.set()
            await serving

    def _announce(self, url: str) -> None:
        with suppress(OSError):  # nobody reads it any longer
            print(f"Halo {__version__} ready on {url}", flush=True)
            if not self._has_password:
                print("No password is set, so only this machine can reach it; `halo password` sets one.", flush=True)
        if self._ready_fd is not None:
            with suppress(OSError):
                os.write(self._ready_fd, f"{url}\n".encode())
                os.close(self._ready_fd)


def _log_to_file(settings: LoadedSettings) -> None:
    file = settings.home / "global" / "logs" / "server.log"
    configure(settings.of(LogSettings), secrets=settings.secrets, file=file)


def _presence(url: str, token: str, kernel: Kernel) -> Presence:
    return Presence(url=url, token=token, pid=os.getpid(), version=__version__, started=kernel.clock.now())


def _check_reach(sock: socket.socket, *, has_password: bool) -> None:
    """Refuse to let others reach a server that asks for no password."""
    if not has_password and not is_loopback(sock):
        raise BadInput(
            "Without a password the server listens on this machine only, and this host lets others reach it.",
            field="server.host",
            advice="Set a password with `halo password`, or leave the host at 127.0.0.1.",
        )


async def first_of(*waits: asyncio.Task[Any] | Coroutine[Any, Any, Any]) -> None:
    """Return when one of them is done; coroutines that are not are cancelled, tasks go on."""
    ours = [asyncio.create_task(each) for each in waits if not isinstance(each, asyncio.Task)]
    theirs = [each for each in waits if isinstance(each, asyncio.Task)]
    try:
        await asyncio.wait({*ours, *theirs}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ours:
            task.cancel()
