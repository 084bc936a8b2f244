"""One request to one route, from its arrival to its response: origin, caller, body, handler, answer."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ..credentials import COOKIE, COOKIE_LIFE
from ..errors import Stopping
from ..records import Exchange, Principal, Reply, Route, Stream
from .bodies import decode
from .gate import Gate
from .origins import Origins
from .replies import as_response, failure, known
from .streams import EventStream, is_cancel


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One request to a route; `origins` are those that are accepted from its beginning to its end."""

    route: Route
    gate: Gate
    origins: Origins
    request: Request

    async def respond(self) -> Response:
        """Return the response, of a failure too; only a cancel that somebody asked for is raised."""
        try:
            response = await self._answer()
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            # asyncio would let `SystemExit` end the server.
            if is_cancel(error):
                raise
            response = as_response(failure(known(error, self.route, self.gate.kernel.clock), self.request))
        response.headers.update(self.origins.cors(self.request.headers.get("origin"), scheme=self.route.auth))
        return response

    async def _answer(self) -> Response:
        request, route, gate = self.request, self.route, self.gate
        if gate.kernel.stopping.is_set():
            raise Stopping("The server is shutting down.", advice="Try again when it runs again.")
        self.origins.check(request.method, request.headers, scheme=route.auth)
        address = self.origins.address(request)
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
        response = as_response(answer)
        self._sign(response, answer if isinstance(answer, Reply) else Reply(), principal if is_old else None)
        return response

    def _sign(self, response: Response, reply: Reply, renewed: Principal | None) -> None:
        """Set or end the browser's cookie, as the reply wants it."""
        principal = reply.signed_in or renewed
        if principal is None and not reply.signed_out:
            return
        value, life = ("", 0) if principal is None else (self.gate.credentials.cookies.sign(principal), COOKIE_LIFE)
        scheme = self.origins.forwarded(self.request.headers, "proto") or self.request.url.scheme
        response.set_cookie(COOKIE, value, life, secure=scheme == "https", httponly=True)
