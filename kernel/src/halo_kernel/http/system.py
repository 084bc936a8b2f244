"""The kernel's own routes: health, the server and its plugins, one-time links, the front page."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast
from urllib.parse import urlencode, urlsplit

from msgspec import Struct, convert, structs

from ..credentials import LINK_LIFE, Links
from ..errors import BadInput, Conflict, NotFound, PluginFailed, Unauthorized
from ..log import logger
from ..plugins import Plugin
from ..presence import Presence
from ..records import OPERATOR, Exchange, Principal, Reply, Route
from ..runtime import Kernel
from ..settings import ServerSettings

_LOCAL_PATH = re.compile(r"/(?![/\\])[^\x00-\x1f\\]*")


class Health(Struct, frozen=True, kw_only=True):
    """The server answers. `uptime` is in seconds."""

    version: str
    pid: int
    uptime: float
    status: str = "ok"


class ServerStatus(Health, frozen=True, kw_only=True):
    """The server, for its operator; `embedded` in a command. `started` is in UTC milliseconds."""

    url: str
    home: str
    started: int
    embedded: bool
    plugins: tuple[Plugin, ...]


class LinkWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a one-time link leads: a path on this server."""

    next: str = "/"


class LinkMade(Struct, frozen=True, kw_only=True):
    """A one-time link, and after how many seconds it ends."""

    url: str
    expires_in: int = LINK_LIFE


@dataclass(frozen=True, kw_only=True)
class System:
    """Answers the kernel's own routes."""

    kernel: Kernel
    links: Links
    presence: Presence

    def routes(self) -> Sequence[tuple[str, Route]]:
        """Return all routes, with who answers them: of several who claim one, the kernel or nobody."""
        claims: dict[str, list[tuple[str, Route]]] = defaultdict(list)
        for plugin, route in [*(("kernel", route) for route in self._own()), *self.kernel.routes]:
            claims[f"{route.method.upper()} {route.path}"].append((plugin, route))
        for claim, found in claims.items():
            names = sorted({plugin for plugin, _ in found})
            if len(found) > 1:
                fault = f"{claim} is claimed by {' and '.join(names)}"
                logger("http").error("route claimed twice", route=claim, plugins=names)
                for plugin in names:
                    self.kernel.plugins.degrade(PluginFailed(fault, plugin=plugin, hook="provide_routes"))
        return [found[0] for found in claims.values() if len(found) == 1 or found[0][0] == "kernel"]

    def _own(self) -> Sequence[Route]:
        get, post = partial(Route, method="GET"), partial(Route, method="POST")
        return [
            get(path="/", handler=self.front, summary="Go to the front page", auth="public"),
            get(path="/auth/link", handler=self.follow_link, summary="Sign in by a link", optional=True),
            post(path="/api/auth/link", handler=self.link, summary="Make a link", request=LinkWanted, reply=LinkMade),
            get(path="/api/health", handler=self.health, summary="Tell that it answers", reply=Health, auth="public"),
            get(path="/api/server", handler=self.server, summary="Describe the server", reply=ServerStatus),
            post(path="/api/server/stop", handler=self.stop, summary="Stop the server"),
            post(path="/api/plugins/{plugin}/reload", handler=self.reload, summary="Swap a plugin", reply=Plugin),
        ]

    async def health(self, exchange: Exchange) -> Health:
        """Answer that the server runs; for load balancers and for finding out whose port this is."""
        return convert(self._facts(), Health)

    async def server(self, exchange: Exchange) -> ServerStatus:
        """Describe the server and its plugins."""
        facts = {"embedded": self.presence.is_private, "plugins": self.kernel.plugins.list()}
        return convert({**self._facts(), **facts}, ServerStatus, from_attributes=True)

    async def stop(self, exchange: Exchange) -> Mapping[str, bool]:
        """Begin to stop."""
        self.kernel.stopping.set()
        return {"stopping": True}

    async def reload(self, exchange: Exchange) -> Plugin:
        """Swap a plugin for a new import of it."""
        return await self.kernel.reload(exchange.params["plugin"])

    async def link(self, exchange: Exchange) -> LinkMade:
        """Make a link to a path of this server, under the name that the request was sent to."""
        target = _local(cast("LinkWanted", exchange.body).next)
        if self.presence.is_private:
            raise Conflict("No browser reaches a kernel inside a command.", advice="Start the server with `halo up`.")
        base = f"{urlsplit(self.presence.url).scheme}://{exchange.raw.headers['host']}{self._server().root_path}"
        return LinkMade(url=f"{base}/auth/link?{urlencode({'token': self.links.make(), 'next': target})}")

    async def follow_link(self, exchange: Exchange) -> Reply:
        """Sign the browser in and send it on. A browser that is signed in already may follow an old link."""
        if exchange.raw.method == "HEAD" or "prefetch" in exchange.raw.headers.get("sec-purpose", ""):
            return Reply(status=204)  # only looking: the link stays good
        target = _local(exchange.query.get("next", "/"))
        is_good = self.links.use(exchange.query.get("token", ""))
        if not is_good and exchange.principal.scheme != "operator":
            why = "This sign-in link was used already or is older than 5 minutes."
            raise Unauthorized(why, advice="Run `halo up` for a new one.")
        return self._go(target, OPERATOR if is_good else None)

    async def front(self, exchange: Exchange) -> Reply:
        """Go to the page that the setting `server.home` names, else to `admin`, else to `web`."""
        rows = {row.name: row for row in self.kernel.plugins.list() if row.pages}
        for name in (self._server().home, "admin", "web"):
            if name in rows and rows[name].state in ("loaded", "degraded"):
                return self._go(rows[name].pages[0])
        raise NotFound("No plugin with a page is loaded.", advice="Install one: `pip install halo-web`.")

    def _go(self, target: str, signed_in: Principal | None = None) -> Reply:
        location = f"{self._server().root_path}{target}"
        headers = {"Location": location, "Referrer-Policy": "no-referrer"}  # the address here may hold a token
        return Reply(status=303, headers=headers, signed_in=signed_in)

    def _server(self) -> ServerSettings:
        return self.kernel.settings.of(ServerSettings)

    def _facts(self) -> dict[str, object]:
        uptime = max(0, self.kernel.clock.now() - self.presence.started) / 1000
        return {**structs.asdict(self.presence), "home": str(self.kernel.home), "uptime": uptime}


def _local(path: str) -> str:
    """Return a path of this server. Raises `BadInput` for what leads elsewhere."""
    if not _LOCAL_PATH.fullmatch(path):
        raise BadInput("next: must be a path of this server that begins with one '/'.", field="next")
    return path
