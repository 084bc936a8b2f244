"""Handlers' answers as responses."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from ..records import Reply

DEFAULTS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


def as_response(answer: object) -> Response:
    """Return a handler's answer as a response: None is 204, bytes stay as they are, text is UTF-8, all else JSON."""
    if not isinstance(answer, Reply):
        answer = Reply(status=204) if answer is None else Reply(body=answer)
    body, status = answer.body, answer.status
    headers = {**DEFAULTS, **{name.lower(): value for name, value in answer.headers.items()}}
    if body is None:
        return Response(status_code=status, headers=headers)
    if not isinstance(body, bytes) and (answer.media_type == "application/json" or not isinstance(body, str)):
        body = msgspec.json.encode(body)
    return Response(body, status, headers, answer.media_type)
