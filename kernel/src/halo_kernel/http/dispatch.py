"""From a path to the route that answers it, and to an answer when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from ..errors import HaloError, NotFound
from ..records import Reply
from .bodies import Body
from .failures import failure, reads_text, shape
from .replies import Rendered, deliver, render
from .visits import Visit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from ..records import Route
    from .visits import Gate

_UNWANTED_LIMIT = 1_048_576


class Endpoint:
    """All routes of one path, by method, as an ASGI application."""

    def __init__(self, routes: Mapping[str, Route], gate: Gate) -> None:
        self._routes = routes
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method = scope["method"]
        route = self._routes.get("GET" if method == "HEAD" and "HEAD" not in self._routes else method)
        if route is not None:
            await Visit(route, self._gate, scope, receive, send).run()
        elif method == "OPTIONS":
            await answer(self._options(Headers(scope=scope)), scope, receive, send)
        else:
            await answer(self._not_allowed(method), scope, receive, send)

    def _options(self, headers: Headers) -> Reply:
        asked = self._routes.get(headers.get("access-control-request-method", ""))
        if asked is None:
            return Reply(status=204, headers={"Allow": self._allowed()})
        allowed = self._gate.origins.preflight(headers.get("origin"), scheme=asked.auth)
        return Reply(status=204, headers=allowed)

    def _not_allowed(self, method: str) -> Reply:
        error = NotFound(f"{method} is not answered here, only {self._allowed()}.")
        return Reply(status=405, body=shape(error), headers={"Allow": self._allowed()})

    def _allowed(self) -> str:
        return ", ".join(sorted({*self._routes, *(["HEAD"] if "GET" in self._routes else []), "OPTIONS"}))


class Nowhere:
    """What answers a path that no route claims, and every WebSocket upgrade there."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 404, or refuse the upgrade."""
        error: HaloError = NotFound(f"There is nothing at {scope['path']}.")
        if scope["type"] != "websocket":
            as_text = reads_text(scope["path"], Headers(scope=scope))
            await answer(failure(error, as_text=as_text), scope, receive, send)
            return
        try:
            self._gate.origins.check("WEBSOCKET", Headers(scope=scope), scheme="operator")
        except HaloError as refused:
            error = refused
        await _deny(render(failure(error)), scope, receive, send)


async def answer(reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request that reaches no handler."""
    body = Body(receive, Headers(scope=scope), limit=_UNWANTED_LIMIT)
    await deliver(render(reply), body=body, send=send)


async def _deny(rendered: Rendered, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket with a response of our own where the server can carry one, else by closing it (403)."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    # A server does not go on with a connection that asked for an upgrade, and HTTP/1 clients must be told so.
    closing = [(b"connection", b"close")] if scope.get("http_version", "1.1").startswith("1") else []
    headers = [*rendered.headers, *closing]
    await send({"type": "websocket.http.response.start", "status": rendered.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": rendered.body, "more_body": False})
