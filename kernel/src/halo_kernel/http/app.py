"""The application: every route behind the gate, each request up to its response, an answer for what no route claims.

A request's body is read under a limit, decoded into a struct, and drained when nobody wanted it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import cast

import msgspec
from starlette import routing
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from .. import __version__
from ..credentials import COOKIE, COOKIE_LIFE, Credentials
from ..errors import BadInput, NotFound, Stopping, TooLarge
from ..presence import Presence
from ..records import Exchange, Reply, Route, Stream
from ..runtime import Kernel
from .gate import Gate
from .origins import PREFLIGHT, Origins
from .replies import EventStream, as_response, failure, is_cancel, known, shape
from .system import System

DRAIN_SECONDS = 5.0
_NAMED = re.compile(r"(?:required|unknown) field `(?P<name>.*)`", re.DOTALL)


class Face(routing.Router):
    """What a kernel shows: an application that checks `credentials`, and is found by `presence`.

    `url` and `address` are as in `Presence`, `host` is what its socket listens on.
    """

    def __init__(self, kernel: Kernel, *, url: str, address: str = "", host: str = "127.0.0.1") -> None:
        self.credentials = Credentials(kernel.home, kernel.clock)
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


class Body:
    """The body of one request: `receive` and `send` are ASGI's, and take care of it.

    Whoever reads more than `limit` bytes through `receive` gets `TooLarge`.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        self._seen = 0
        self._complete = not {b"content-length", b"transfer-encoding"} & {name for name, _ in scope["headers"]}

    async def receive(self) -> Message:
        """Return the next message, counting what it carries."""
        message = await self._next()
        if self._seen > self._limit:
            raise TooLarge(f"The body is larger than the {self._limit} bytes allowed here.", limit=self._limit)
        return message

    async def send(self, message: Message) -> None:
        """Send a message. Before the answer ends, drop what the client still sends, for a while.

        The end closes the connection, and a client that sends all before it reads would see only that.
        """
        if message["type"] == "http.response.start" or message.get("more_body") or self._complete:
            await self._send(message)
            return
        dropping = asyncio.create_task(self._drop(), name="http.drop")
        await self._send({**message, "more_body": True})
        await asyncio.wait({dropping}, timeout=DRAIN_SECONDS)
        await self._send({"type": "http.response.body"})
        dropping.cancel()  # not before: a server whose queue is full could not end its answer

    async def _drop(self) -> None:
        while not self._complete:
            await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        self._complete = self._complete or not message.get("more_body", False)
        return message


def decode(raw: bytes, kind: type) -> object:
    """Decode a JSON body into a struct; an empty one counts as `{}`.

    Raises `BadInput` that names the field and the rule.
    """
    try:
        return msgspec.json.decode(raw.strip() or b"{}", type=_strict(kind))
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        named = _NAMED.search(rule)
        field = ".".join(filter(None, [place.rstrip("`").lstrip("."), named["name"] if named else ""]))
        raise BadInput(f"{field or 'The body'}: {rule}.", field=field) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"The body is not valid JSON: {error}.") from error


@cache
def _strict(kind: type) -> type:
    """Return the struct, or one derived from it that refuses unknown fields."""
    if issubclass(kind, msgspec.Struct) and not kind.__struct_config__.forbid_unknown_fields:
        return msgspec.defstruct(kind.__name__, [], bases=(kind,), forbid_unknown_fields=True, module=kind.__module__)
    return cast("type[object]", kind)
