"""The application: every route behind the gate, and an answer for what no route claims."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.routing import Route as Mapped
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from .. import __version__
from ..credentials import Credentials, make_credentials
from ..errors import NotFound
from ..presence import Presence
from ..records import Reply, Route
from ..runtime import Kernel
from .bodies import Body
from .gate import Gate
from .origins import PREFLIGHT
from .replies import as_response, failure, shape
from .system import System
from .visits import Visit


@dataclass(frozen=True, kw_only=True)
class Face:
    """What a kernel shows: its application, the credentials that this checks, and where it is found."""

    app: ASGIApp
    credentials: Credentials
    presence: Presence


def make_face(kernel: Kernel, *, url: str, address: str = "", host: str = "127.0.0.1") -> Face:
    """Return a kernel's face; `url` and `address` are as in `Presence`, `host` is what its socket listens on."""
    credentials = make_credentials(kernel.home, kernel.clock)
    token, now = credentials.token, kernel.clock.now()
    presence = Presence(url=url, address=address, token=token, pid=os.getpid(), version=__version__, started=now)
    gate = Gate(kernel=kernel, credentials=credentials, bound=host)
    by_path: dict[str, dict[str, Route]] = defaultdict(dict)
    kernel.served = System(kernel=kernel, links=credentials.links, presence=presence).routes
    for _, route in kernel.served:
        by_path[route.path][route.method.upper()] = route
    mapped = [Mapped(path, Endpoint(by_path[path], gate)) for path in sorted(by_path, key=_vagueness)]
    app = Router(mapped, default=Endpoint({}, gate), redirect_slashes=False)
    return Face(app=app, credentials=credentials, presence=presence)


def _vagueness(path: str) -> tuple[bool, str]:
    """Order `/a/b` before `/a/{x}` before `/{rest:path}`: the first that fits answers."""
    return ":path}" in path, path.replace("{", "\U0010ffff")


@dataclass(frozen=True)
class Endpoint:
    """All routes of one path, by method, as an ASGI application; none where no plugin claims the path."""

    routes: Mapping[str, Route]
    gate: Gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; no upgrade to a WebSocket is let in."""
        if scope["type"] == "websocket":
            await WebSocketClose(1008)(scope, receive, send)
            return
        route = self.routes.get(scope["method"]) or (self.routes.get("GET") if scope["method"] == "HEAD" else None)
        body = Body(scope, receive, send, limit=route.body_limit if route else 0)
        request = Request(scope, body.receive)
        if route is None:
            response = as_response(self._unanswered(request))
        else:
            response = await Visit(route=route, gate=self.gate, origins=self.gate.origins, request=request).respond()
        await response(scope, body.receive, body.send)

    def _unanswered(self, request: Request) -> Reply:
        """Answer for a path or a method that no route has, and a browser that asks before it sends from elsewhere."""
        if not self.routes:
            return failure(NotFound(f"There is nothing at {request.scope['path']}."), request)
        allow = ", ".join(sorted({*self.routes, "OPTIONS", *(["HEAD"] if "GET" in self.routes else [])}))
        if request.method != "OPTIONS":
            error = NotFound(f"{request.method} is not answered here, only {allow}.")
            return Reply(status=405, body=shape(error), headers={"Allow": allow})
        asked = self.routes.get(request.headers.get("access-control-request-method", ""))
        cors = self.gate.origins.cors(request.headers.get("origin"), scheme=asked.auth) if asked else {}
        return Reply(status=204, headers={"Allow": allow, **cors, **(PREFLIGHT if cors else {})})
