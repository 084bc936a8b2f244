"""The kernel's own routes: health, the server, models, one-time links, a description of all routes, the front page."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from msgspec import Struct

from ..credentials import LINK_LIFE
from ..errors import BadInput, Conflict, NotFound, Unauthorized
from ..openapi import describe
from ..records import OPERATOR, Exchange, Offer, Reply, Route
from ..settings import ServerSettings

if TYPE_CHECKING:
    import asyncio

    from ..contracts import Clock, Settings
    from ..credentials import Links
    from ..plugins import Plugin

_LOCAL_PATH = re.compile(r"/(?![/\\])[^\x00-\x1f\\]*")
Models = Callable[[], Awaitable[tuple[Sequence[Offer], Offer | None, str]]]


@dataclass(frozen=True, kw_only=True)
class About:
    """What this server says about itself. `host` is what it is bound to; `started` is in UTC milliseconds."""

    version: str
    home: str
    pid: int
    started: int
    host: str = "127.0.0.1"
    url: str = ""
    embedded: bool = False


class Health(Struct, frozen=True, kw_only=True):
    """The server answers. `uptime` is in seconds."""

    status: str
    version: str
    pid: int
    uptime: float


class PluginStatus(Struct, frozen=True, kw_only=True):
    """A plugin as lists show it."""

    name: str
    version: str
    state: str
    reason: str
    advice: str


class ServerStatus(Struct, frozen=True, kw_only=True):
    """The server, for its operator. `started` is in UTC milliseconds, `uptime` in seconds."""

    version: str
    url: str
    home: str
    pid: int
    started: int
    uptime: float
    embedded: bool
    plugins: tuple[PluginStatus, ...]


class ModelsStatus(Struct, frozen=True, kw_only=True):
    """The models, best first; `chosen` answers a new turn, `reason` says why it, or why none."""

    models: tuple[Offer, ...]
    chosen: str | None
    reason: str


class LinkWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a one-time link leads: a path on this server."""

    next: str = "/"


class LinkMade(Struct, frozen=True, kw_only=True):
    """A one-time link, and after how many seconds it ends."""

    url: str
    expires_in: int = LINK_LIFE


class Stopped(Struct, frozen=True, kw_only=True):
    """The server has begun to stop."""

    stopping: bool


@dataclass(frozen=True, kw_only=True)
class System:
    """Answers the kernel's own routes."""

    about: About
    clock: Clock
    links: Links
    models: Models
    plugins: Callable[[], Sequence[Plugin]]
    stopping: asyncio.Event
    others: Sequence[tuple[str, Route]]
    pages: Mapping[str, str]
    settings: Settings

    @cached_property
    def routes(self) -> Sequence[tuple[str, Route]]:
        """All routes: the kernel's own, then the plugins'."""
        own = (
            Route(method="GET", path="/", handler=self.front, summary="Go to the front page", auth="public"),
            Route(
                method="GET",
                path="/auth/link",
                handler=self.follow_link,
                summary="Sign a browser in with a one-time link",
                optional=True,
                attempts="link",
            ),
            Route(
                method="POST",
                path="/api/auth/link",
                handler=self.make_link,
                summary="Make a one-time link",
                request=LinkWanted,
                reply=LinkMade,
            ),
            Route(
                method="GET",
                path="/api/health",
                handler=self.health,
                summary="Tell whether the server answers",
                reply=Health,
                auth="public",
            ),
            Route(
                method="GET", path="/api/server", handler=self.server, summary="Describe the server", reply=ServerStatus
            ),
            Route(method="POST", path="/api/server/stop", handler=self.stop, summary="Stop the server", reply=Stopped),
            Route(
                method="GET",
                path="/api/models",
                handler=self.list_models,
                summary="List the models and the choice of a new turn",
                reply=ModelsStatus,
            ),
            Route(method="GET", path="/api/openapi.json", handler=self.openapi, summary="Describe all routes"),
        )
        return [*(("kernel", route) for route in own), *self.others]

    async def health(self, exchange: Exchange) -> Health:
        """Answer that the server runs; for load balancers and for finding out whose port this is."""
        return Health(status="ok", version=self.about.version, pid=self.about.pid, uptime=self._uptime())

    async def server(self, exchange: Exchange) -> ServerStatus:
        """Describe the server and its plugins."""
        about = self.about
        rows = tuple(
            PluginStatus(name=row.name, version=row.version, state=row.state, reason=row.reason, advice=row.advice)
            for row in self.plugins()
        )
        return ServerStatus(
            version=about.version,
            url=about.url,
            home=about.home,
            pid=about.pid,
            started=about.started,
            uptime=self._uptime(),
            embedded=about.embedded,
            plugins=rows,
        )

    async def stop(self, exchange: Exchange) -> Stopped:
        """Begin to stop."""
        self.stopping.set()
        return Stopped(stopping=True)

    async def list_models(self, exchange: Exchange) -> ModelsStatus:
        """List the offers of all providers."""
        offers, chosen, reason = await self.models()
        return ModelsStatus(models=tuple(offers), chosen=chosen.model if chosen else None, reason=reason)

    async def openapi(self, exchange: Exchange) -> Mapping[str, object]:
        """Describe all routes."""
        return self._description

    async def make_link(self, exchange: Exchange) -> LinkMade:
        """Make a link to a path of this server, under the name that the request was sent to."""
        wanted = cast("LinkWanted", exchange.body)
        if not _LOCAL_PATH.fullmatch(wanted.next):
            raise BadInput("next: must be a path of this server that begins with one '/'.", field="next")
        if not self.about.url:
            raise Conflict(
                "No browser can reach a kernel that runs inside a command.", advice="Start the server with `halo up`."
            )
        scheme = urlsplit(self.about.url).scheme
        base = f"{scheme}://{exchange.raw.headers['host']}{self._root_path}"
        return LinkMade(url=f"{base}/auth/link?token={self.links.make(wanted.next)}")

    async def follow_link(self, exchange: Exchange) -> Reply:
        """Sign the browser in and send it on. A browser that is signed in already may follow an old link."""
        headers = exchange.raw.headers
        if exchange.raw.method != "GET" or "prefetch" in headers.get("sec-purpose", headers.get("purpose", "")):
            return Reply(status=204)  # only looking: the link stays good
        token = exchange.query.get("token", "")
        if not token:
            raise BadInput("token: is required.", field="token")
        target = self.links.use(token)
        if target is not None:
            return self._go(target, signed_in=True)
        if exchange.principal.scheme == "operator":
            return self._go(self.links.target(token))
        raise Unauthorized(
            "This sign-in link was used already or is older than 5 minutes.", advice="Run `halo up` for a new one."
        )

    async def front(self, exchange: Exchange) -> Reply:
        """Go to the page that the setting `server.home` names, else to `admin`, else to `web`."""
        for name in (self.settings.of(ServerSettings).home, "admin", "web"):
            if name in self.pages:
                return self._go(self.pages[name])
        raise NotFound("No plugin with a page is loaded.", advice="Install one: `pip install halo-web`.")

    def _go(self, target: str, *, signed_in: bool = False) -> Reply:
        location = f"{self._root_path}{target}"
        headers = {"Location": location, "Referrer-Policy": "no-referrer"}  # the address here may hold a token
        return Reply(status=303, headers=headers, signed_in=OPERATOR if signed_in else None)

    @property
    def _root_path(self) -> str:
        return self.settings.of(ServerSettings).root_path

    def _uptime(self) -> float:
        return max(0, self.clock.now() - self.about.started) / 1000

    @cached_property
    def _description(self) -> dict[str, object]:
        return describe(self.routes, version=self.about.version)
