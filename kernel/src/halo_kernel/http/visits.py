"""One request to one route, from its arrival to its response: origin, caller, body, handler, answer."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

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


async def respond(request: Request, route: Route, gate: Gate) -> Response:
    """Return the response, of a failure too; only a cancel that somebody asked for is raised."""
    origins = gate.origins()  # those of its beginning, up to its end
    try:
        response = await _answer(request, route, gate, origins)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        # asyncio would let `SystemExit` end the server.
        if is_cancel(error):
            raise
        response = as_response(failure(known(error, route, gate.kernel.clock), request))
    response.headers.update(origins.cors(request.headers.get("origin"), scheme=route.auth))
    return response


async def _answer(request: Request, route: Route, gate: Gate, origins: Origins) -> Response:
    if gate.kernel.stopping.is_set():
        raise Stopping("The server is shutting down.", advice="Try again when it runs again.")
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
    if signed_in or reply.signed_out:
        scheme = origins.forwarded(request.headers, "proto") or request.url.scheme
        _sign(response, gate, signed_in, secure=scheme == "https")
    return response


def _sign(response: Response, gate: Gate, principal: Principal | None, *, secure: bool) -> None:
    """Set the browser's cookie, or end it where nobody is signed in."""
    value, life = (gate.credentials.cookies.sign(principal), COOKIE_LIFE) if principal else ("", 0)
    response.set_cookie(COOKIE, value, life, secure=secure, httponly=True)
