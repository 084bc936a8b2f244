"""A request's body: read under a limit, decoded into a struct, and drained when nobody wanted it."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import cast

import msgspec
from starlette.types import Message, Receive, Scope, Send

from ..errors import BadInput, TooLarge

DRAIN_SECONDS = 5.0
_NAMED = re.compile(r"(?:required|unknown) field `(?P<name>.*)`", re.DOTALL)


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
