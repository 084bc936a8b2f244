"""The application: every route behind the gate, and an answer for what no route claims."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection, Request
from starlette.routing import Route as Mapped
from starlette.routing import Router

from .. import __version__
from ..credentials import make_credentials
from ..errors import HaloError, NotFound
from ..presence import Presence
from ..records import Reply
from .bodies import Body
from .failures import failure, shape
from .gate import Gate
from .origins import PREFLIGHT
from .replies import as_response
from .system import System
from .visits import Visit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ..credentials import Credentials
    from ..records import Route
    from ..runtime import Kernel

_PARAMETER = re.compile(r"\{[^}]*\}")


@dataclass(frozen=True, kw_only=True)
class Face:
    """What a kernel shows: its application, the credentials that this checks, and where it is found."""

    app: ASGIApp
    credentials: Credentials
    presence: Presence


def make_face(kernel: Kernel, *, url: str, host: str = "127.0.0.1") -> Face:
    """Return a kernel's face; `url` is what it is reached by, `host` what its socket listens on."""
    credentials = make_credentials(kernel.home, kernel.clock)
    presence = Presence(
        url=url, token=credentials.token, pid=os.getpid(), version=__version__, started=kernel.clock.now()
    )
    gate = Gate(kernel=kernel, credentials=credentials, bound=host)
    by_path: dict[str, dict[str, Route]] = defaultdict(dict)
    kernel.served = System(kernel=kernel, links=credentials.links, presence=presence).routes
    for _, route in kernel.served:
        by_path[route.path][route.method.upper()] = route
    mapped = [Mapped(path, Endpoint(by_path[path], gate)) for path in sorted(by_path, key=_vagueness)]
    app = Router(mapped, default=Nowhere(gate), redirect_slashes=False)
    return Face(app=app, credentials=credentials, presence=presence)


def _vagueness(path: str) -> list[tuple[int, str]]:
    """Order `/a/b` before `/a/{x}` before `/{rest:path}`: the first that fits answers."""
    return [
        (2 if ":path}" in part else 1 if _PARAMETER.search(part) else 0, part) for part in path.strip("/").split("/")
    ]


class Endpoint:
    """All routes of one path, by method, as an ASGI application."""

    def __init__(self, routes: Mapping[str, Route], gate: Gate) -> None:
        self._routes = routes
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        route = self._routes.get(scope["method"]) or (self._routes.get("GET") if scope["method"] == "HEAD" else None)
        body = Body(scope, receive, send, limit=route.body_limit if route else 0)
        request = Request(scope, body.receive)
        if route is not None:
            response = await Visit(route=route, gate=self._gate, request=request, body=body).respond()
        else:
            response = as_response(self._without_route(request))
        await response(scope, body.receive, body.send)

    def _without_route(self, request: Request) -> Reply:
        """Answer a browser that asks before it sends from another origin, and a method that no route has."""
        allow = ", ".join(sorted({*self._routes, "OPTIONS", *(["HEAD"] if "GET" in self._routes else [])}))
        if request.method != "OPTIONS":
            error = NotFound(f"{request.method} is not answered here, only {allow}.")
            return Reply(status=405, body=shape(error), headers={"Allow": allow})
        asked = self._routes.get(request.headers.get("access-control-request-method", ""))
        cors = self._gate.origins.cors(request.headers.get("origin"), scheme=asked.auth) if asked else {}
        return Reply(status=204, headers={"Allow": allow, **cors, **(PREFLIGHT if cors else {})})


class Nowhere:
    """What answers a path that no route claims, and every WebSocket upgrade there."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 404, or refuse the upgrade."""
        connection = HTTPConnection(scope)
        error: HaloError = NotFound(f"There is nothing at {scope['path']}.")
        if scope["type"] == "http":
            body = Body(scope, receive, send, limit=0)
            await as_response(failure(error, connection))(scope, body.receive, body.send)
            return
        try:
            self._gate.origins.check("WEBSOCKET", connection.headers, scheme="operator")
        except HaloError as refused:
            error = refused
        await receive()
        await _deny(as_response(failure(error, connection)), scope, receive, send)


async def _deny(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket with a response of our own where the server can carry one, else by closing it (403)."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    if scope.get("http_version", "1.1").startswith("1"):
        # A server does not go on with a connection that asked for an upgrade, and HTTP/1 clients must be told so.
        response.headers["connection"] = "close"
    await response(scope, receive, send)
