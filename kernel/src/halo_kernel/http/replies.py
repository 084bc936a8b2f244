"""Answers as ASGI messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ..records import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import Send

    from .bodies import Body

Pairs = list[tuple[bytes, bytes]]

DEFAULTS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TEXT = ("text/", "application/javascript", "application/json", "image/svg+xml")


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """An answer in bytes."""

    status: int
    headers: Pairs
    body: bytes


def as_reply(answer: object) -> Reply:
    """Return a handler's answer as a reply: None is 204, any other value a JSON body."""
    if isinstance(answer, Reply):
        return answer
    return Reply(status=204) if answer is None else Reply(body=answer)


def render(reply: Reply, extra: Iterable[tuple[str, str]] = ()) -> Rendered:
    """Return a reply in bytes: bytes as they are, text as UTF-8, anything else as JSON."""
    bodiless = reply.status in (204, 304) or (reply.body is None and reply.status in range(300, 400))
    body = b"" if bodiless else _encode(reply)
    headers = dict(reply.headers)
    if not bodiless:
        headers = {"Content-Type": _content_type(reply.media_type), "Content-Length": str(len(body)), **headers}
    return Rendered(status=reply.status, headers=pairs(headers, extra), body=body)


def pairs(headers: Mapping[str, str], extra: Iterable[tuple[str, str]] = ()) -> Pairs:
    """Return headers as ASGI wants them, with the defaults for those that are not set."""
    given = {name.lower() for name in headers}
    defaults = {name: value for name, value in DEFAULTS.items() if name.lower() not in given}
    everything = [*headers.items(), *defaults.items(), *extra]
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in everything]


async def deliver(rendered: Rendered, *, body: Body, send: Send) -> None:
    """Send an answer. What the client still sends is dropped before the answer ends: its end closes the connection."""
    await send({"type": "http.response.start", "status": rendered.status, "headers": rendered.headers})
    rest = rendered.body
    if not body.complete:
        await send({"type": "http.response.body", "body": rest, "more_body": True})
        await body.drain()
        rest = b""
    async with body.dropping():
        await send({"type": "http.response.body", "body": rest, "more_body": False})


def _encode(reply: Reply) -> bytes:
    if isinstance(reply.body, bytes):
        return reply.body
    if isinstance(reply.body, str) and reply.media_type != "application/json":
        return reply.body.encode()
    return msgspec.json.encode(reply.body)


def _content_type(media_type: str) -> str:
    return (
        f"{media_type}; charset=utf-8" if media_type.startswith(_TEXT) and "charset" not in media_type else media_type
    )
