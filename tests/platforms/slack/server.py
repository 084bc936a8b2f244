"""A Slack on loopback for one test or one process.

In an asynchronous test::

    async with SlackServer() as slack:
        kim = slack.people.add_user("kim")
        dm = slack.people.direct("kim", "halo")
        ...  # AsyncWebClient(token=slack.app.token, base_url=slack.api_url), then
        slack.people.say("kim", dm, "hello")
        await slack.answers(dm)

In another test, `remote.threaded()` or `remote.spawned()`; as a process, `python -m tests.platforms.slack --port 0`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from .admin import Admin
from .arguments import multipart
from .clock import Clock, Pace
from .control import Control
from .faults import Fault
from .files import download, login, receive
from .ledger import Ledger
from .messages import Json
from .methods import Methods
from .people import People
from .platform import Platform
from .team import App
from .web import Answer, Line, Request, WebServer, text_answer


class SlackServer:
    """One workspace with one app, named `app`; `people` and `admin` do what people do there."""

    def __init__(
        self,
        *,
        app: str = "halo",
        clock: Clock | None = None,
        pace: Pace | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.platform = Platform(clock=clock, pace=pace)
        self.people = People(self.platform)
        self.admin = Admin(self.platform)
        self.app: App = self.platform.team.add_app(app)
        self._control = Control(self.platform, self.people, self.admin)
        self._methods = Methods(self.platform)
        self._web = WebServer(self._serve)
        self._address = (host, port)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.platform.url

    @property
    def api_url(self) -> str:
        """The `base_url` for Slack's clients."""
        return f"{self.platform.url}/api/"

    @property
    def ledger(self) -> Ledger:
        """What arrived and was sent."""
        return self.platform.ledger

    async def __aenter__(self) -> Self:
        port = await self._web.start(*self._address)
        self.platform.url = f"http://{self._address[0]}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.platform.deliveries.stop()
        await self._web.stop()
        await self.platform.posts.stop()

    def fault(self, on: str, kind: str, **facts: Any) -> Fault:
        """Let something go wrong, see `Fault`."""
        fault = Fault(on=on, kind=kind, **facts)
        self.platform.faults.add(fault)
        return fault

    async def answers(
        self, channel: str, *, thread: str | None = None, count: int = 1, timeout: float = 10.0
    ) -> list[Json]:
        """Return what bots said in a channel or a thread, once there are `count`."""

        def enough() -> list[Json]:
            found = self.people.answers(channel, thread=thread)
            return found if len(found) >= count else []

        found: list[Json] = await self.wait(enough, timeout=timeout)
        return found

    async def connected(self, count: int = 1, *, timeout: float = 10.0) -> None:
        """Return once exactly `count` sockets are open."""
        await self.wait(lambda: len(self.platform.sockets.open) == count, timeout=timeout)

    async def wait(self, true: Callable[[], Any], *, timeout: float = 10.0) -> Any:
        """Return the first true value of `true`."""
        return await self.ledger.wait(true, timeout=timeout)

    async def _serve(self, request: Request, line: Line) -> bool:
        if request.path.startswith("/api/"):
            return await self._methods.serve(request, line)
        if request.path == "/link/":
            await self.platform.sockets.serve(request, line)
            return False
        if request.path.startswith(("/upload/v1/", "/files-pri/")):
            return await self._file(request, line)
        await line.send((await self._page(request)).encoded())
        return True

    async def _file(self, request: Request, line: Line) -> bool:
        """Take or give a file's bytes, or let it go wrong under the names `upload` and `download`."""
        kind = "upload" if request.path.startswith("/upload/") else "download"
        fault = self.platform.faults.take(kind)
        if fault is not None and fault.kind == "delay":
            await self.platform.clock.sleep(fault.seconds)
        if fault is not None and fault.kind == "status":
            answer = text_answer("scripted", status=fault.status)
        elif fault is not None and fault.kind == "lost_request":
            line.abort()
            return False
        else:
            answer = self._bytes(request)
        if fault is not None and fault.kind == "lost_answer":
            line.abort()
            return False
        await line.send(answer.encoded())
        return True

    def _bytes(self, request: Request) -> Answer:
        if request.path.startswith("/files-pri/"):
            return download(self.platform, request)
        if request.method != "POST":
            return text_answer("method_not_allowed", status=405)
        whole = request.content_type == "multipart/form-data"
        content = next(iter(multipart(request).values()), b"") if whole else request.body
        return receive(self.platform, request.path.rpartition("/")[2], content)

    async def _page(self, request: Request) -> Answer:
        if request.path.startswith("/control/"):
            return await self._control.serve(request)
        if request.path.startswith("/response/"):
            return self.platform.triggers.respond(request)
        if request.path == "/signin":
            return login(self.platform)
        return text_answer("not found", status=404)
