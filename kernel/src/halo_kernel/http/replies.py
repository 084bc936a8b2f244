"""Handlers' answers as responses, and the one place where an exception becomes a status code."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import Response

from .. import errors
from ..contracts import Clock
from ..errors import BadInput, HaloError
from ..log import logger
from ..records import Reply, Route

DEFAULTS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
STATUS: Mapping[type[HaloError], int] = {
    errors.BadInput: 400,
    errors.TooLarge: 413,
    errors.Unauthorized: 401,
    errors.LockedOut: 429,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.QueueFull: 429,
    errors.WorkspaceUnusable: 409,
    errors.CursorGone: 410,
    errors.ModelError: 502,
    errors.StorageUnavailable: 503,
    errors.Stopping: 503,
    HaloError: 500,
}


def known(error: BaseException, route: Route, clock: Clock) -> HaloError:
    """Return what a client may know of an exception: a defect is logged under a reference, and only that is told."""
    if isinstance(error, HaloError):
        return error
    if isinstance(error, ClientDisconnect):
        return BadInput("The request ended before its body did.")
    reference, where = clock.new_id(64), f"{route.method} {route.path}"
    logger("http").error("request failed", reference=reference, where=where, exc_info=error)
    said = f"Something went wrong inside the server (reference {reference})."
    return HaloError(said, advice=f"The server's log has the details under {reference}.")


def status_of(error: HaloError) -> int:
    """Return the HTTP status of an error, which a class of a plugin's own has from the one that it is made of."""
    return next(STATUS[base] for base in type(error).__mro__ if base in STATUS)


def shape(error: HaloError) -> dict[str, object]:
    """Return what a client is told: the sentence, the class's name, the advice and the facts that the error carries."""
    facts = {name: value for name, value in vars(error).items() if value not in ("", None) and not name.startswith("_")}
    return {"error": facts.pop("message", ""), "type": type(error).__name__, **facts}


def failure(error: HaloError, connection: HTTPConnection) -> Reply:
    """Return the answer to a request that failed: as JSON, or in a browser that opens a page as text for a person."""
    status = status_of(error)
    said: dict[str, str] = {"WWW-Authenticate": 'Bearer realm="halo"'} if status == 401 else {}
    if wait := getattr(error, "retry_after", None) or (1 if status in (429, 503) else 0):
        said["Retry-After"] = str(math.ceil(wait))
    if "text/html" in connection.headers.get("accept", "") and not connection.scope["path"].startswith("/api/"):
        text = "\n".join(line for line in (error.message, error.advice) if line) + "\n"
        return Reply(status=status, body=text, headers=said, media_type="text/plain")
    return Reply(status=status, body=shape(error), headers=said)


def as_response(answer: object) -> Response:
    """Return a handler's answer as a response: None is 204, bytes stay as they are, text is UTF-8, all else JSON."""
    reply = answer if isinstance(answer, Reply) else Reply(body=answer, status=204 if answer is None else 200)
    headers = {**DEFAULTS, **{name.lower(): value for name, value in reply.headers.items()}}
    body = reply.body
    if body is None:
        return Response(status_code=reply.status, headers=headers)
    if not isinstance(body, bytes) and (reply.media_type == "application/json" or not isinstance(body, str)):
        body = msgspec.json.encode(body)
    return Response(body, reply.status, headers, reply.media_type)
