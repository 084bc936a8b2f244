"""The application: every route behind the gate, each request up to its response, an answer for what no route claims."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from starlette import routing
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from .. import __version__
from ..credentials import COOKIE, COOKIE_LIFE, make_credentials
from ..errors import NotFound, Stopping
from ..presence import Presence
from ..records import Exchange, Reply, Route, Stream
from ..runtime import Kernel
from .bodies import Body, decode
from .gate import Gate
from .origins import PREFLIGHT, Origins
from .replies import EventStream, as_response, failure, is_cancel, known, shape
from .system import System


class Face(routing.Router):
    """What a kernel shows: an application that checks `credentials`, and is found by `presence`.

    `url` and `address` are as in `Presence`, `host` is what its socket listens on.
    """

    def __init__(self, kernel: Kernel, *, url: str, address: str = "", host: str = "127.0.0.1") -> None:
        self.credentials = make_credentials(kernel.home, kernel.clock)
        token, pid, now = self.credentials.token, os.getpid(), kernel.clock.now()
        self.presence = Presence(url=url, address=address, token=token, pid=pid, version=__version__, started=now)
        self._gate = Gate(kernel=kernel, credentials=self.credentials, bound=host)
        super().__init__(default=Endpoint({}, self._gate), redirect_slashes=False)
        self._kernel, kernel.remap = kernel, self.map
        self.map()

    def map(self) -> None:
        """Answer the routes that the kernel and its plugins have now."""
        system = System(kernel=self._kernel, links=self.credentials.links, presence=self.presence)
        self._kernel.served = system.routes()
        by_path: dict[str, dict[str, Route]] = defaultdict(dict)
        for _, route in self._kernel.served:
            by_path[route.path][route.method.upper()] = route
        # `/a/b` before `/a/{x}` before `/{rest:path}`: the first that fits answers.
        paths = sorted(by_path, key=lambda path: (":path}" in path, path.replace("{", "\U0010ffff")))
        self.routes = [routing.Route(path, Endpoint(by_path[path], self._gate)) for path in paths]


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
            response = await _respond(request, route, self.gate)
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
        cors = self.gate.origins().cors(request.headers.get("origin"), scheme=asked.auth) if asked else {}
        return Reply(status=204, headers={"Allow": allow, **cors, **(PREFLIGHT if cors else {})})


async def _respond(request: Request, route: Route, gate: Gate) -> Response:
    """Return the response, of a failure too; only a cancel that somebody asked for is raised."""
    origins = gate.origins()  # those of its beginning, up to its end
    try:
        response = await _answer(request, route, gate, origins)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        # asyncio would let `SystemExit` end the server.
        if is_cancel(error):
            if not gate.kernel.stopping.is_set():
                raise
            error = _stopping()
        response = as_response(failure(known(error, route, gate.kernel.clock), request))
    response.headers.update(origins.cors(request.headers.get("origin"), scheme=route.auth))
    return response


async def _answer(request: Request, route: Route, gate: Gate, origins: Origins) -> Response:
    if gate.kernel.stopping.is_set():
        raise _stopping()
    origins.check(request.method, request.headers, scheme=route.auth)
    address = origins.address(request)
    principal, is_old = await gate.caller(request, route, address)
    exchange = Exchange(
        principal=principal,
        body=None if route.request is None else decode(await request.body(), route.request),
        params={name: str(value) for name, value in request.path_params.items()},
        query=dict(request.query_params),
        last_event_id=request.headers.get("last-event-id"),
        address=address,
        raw=request,
    )
    async with gate.attempt(route.attempts, address) if route.attempts else nullcontext():
        answer = await route.handler(exchange)
    if isinstance(answer, Stream):
        return EventStream(answer.events, route, gate.kernel)
    response, reply = as_response(answer), answer if isinstance(answer, Reply) else Reply()
    signed_in = reply.signed_in or (principal if is_old else None)
    if signed_in or reply.signed_out:  # the browser's cookie is set, or ended where nobody is signed in
        scheme = origins.forwarded(request.headers, "proto") or request.url.scheme
        value, life = (gate.credentials.cookies.sign(signed_in), COOKIE_LIFE) if signed_in else ("", 0)
        response.set_cookie(COOKIE, value, life, secure=scheme == "https", httponly=True)
    return response


def _stopping() -> Stopping:
    return Stopping("The server is shutting down.", advice="Try again when it runs again.")
