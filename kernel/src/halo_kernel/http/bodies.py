"""A request's body: read under a limit, decoded into a struct, and drained when nobody wanted it."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, cast

import msgspec

from ..errors import BadInput, TooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.datastructures import Headers
    from starlette.types import Message, Receive

DRAIN_BYTES = 64 * 1024 * 1024
DRAIN_SECONDS = 10.0
_AT = re.compile(r"^(?P<rule>.*) - at `(?P<where>[^`]*)`$", re.DOTALL)
_NAMED = re.compile(r"(?:required|unknown) field `(?P<name>[^`]*)`")


class Body:
    """The body of one request, counted while it is read.

    Its `receive` is an ASGI one: whoever reads through it raises `TooLarge` as soon as the limit is passed.
    """

    def __init__(self, receive: Receive, headers: Headers, *, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._seen = 0
        self._announced = _announced(headers)
        self.complete = self._announced == 0

    async def receive(self) -> Message:
        """Return the next message, counting what it carries."""
        if self._announced is not None and self._announced > self._limit:
            raise self._too_large()
        message = await self._next()
        if self._seen > self._limit:
            raise self._too_large()
        return message

    async def read(self) -> bytes:
        """Return the whole body. Raises `TooLarge`, or `BadInput` when the client went away in the middle."""
        chunks: list[bytes] = []
        while not self.complete:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise BadInput("The request ended before its body did.")
            chunks.append(message.get("body", b""))
        return b"".join(chunks)

    async def gone(self) -> None:
        """Return when the client has gone, dropping whatever it still sends."""
        while (await self._next())["type"] != "http.disconnect":
            pass

    async def drain(self) -> None:
        """Drop the rest of the body, within bounds.

        A client that sends all before it reads would otherwise see a broken connection instead of the answer.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.complete and self._seen < self._limit + DRAIN_BYTES:
                    if (await self._next())["type"] == "http.disconnect":
                        return

    @asynccontextmanager
    async def dropping(self) -> AsyncGenerator[None]:
        """Drop whatever arrives meanwhile: a server whose queue is full could not end its answer."""
        if self.complete:
            yield
            return
        dropping = asyncio.create_task(self.gone(), name="http.drop")
        try:
            yield
        finally:
            dropping.cancel()

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            self.complete = self.complete or not message.get("more_body", False)
        return message

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body is larger than the {self._limit} bytes allowed here.", limit=self._limit)


def decode(raw: bytes, kind: type) -> object:
    """Decode a JSON body into a struct; an empty one counts as `{}`.

    Raises `BadInput` that names the field and the rule.
    """
    try:
        return _decoder(kind).decode(raw.strip() or b"{}")
    except msgspec.ValidationError as error:
        rule, field = explain(error)
        raise BadInput(f"{field}: {rule}." if field else f"The body breaks a rule: {rule}.", field=field) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"The body is not valid JSON: {error}.") from error


def explain(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the rule that was broken and the dotted name of the field that broke it."""
    text = str(error)
    found = _AT.match(text)
    rule, where = (found["rule"], found["where"]) if found else (text, "$")
    named = _NAMED.search(rule)
    path = where.removeprefix("$").removeprefix(".")
    if named:
        path = f"{path}.{named['name']}" if path else named["name"]
        rule = "is required" if "required" in rule else "is not a field of this request"
    return rule, path


@cache
def _decoder(kind: type) -> msgspec.json.Decoder[object]:
    return msgspec.json.Decoder(_strict(kind))


def _strict(kind: type) -> type:
    """Return the struct, or one derived from it that refuses unknown fields."""
    if not issubclass(kind, msgspec.Struct) or kind.__struct_config__.forbid_unknown_fields:
        return cast("type[object]", kind)
    struct = cast("type[object]", kind)
    return msgspec.defstruct(struct.__name__, [], bases=(kind,), forbid_unknown_fields=True, module=struct.__module__)


def _announced(headers: Headers) -> int | None:
    """Return the length that the client announced: 0 without a body, None when only reading can tell."""
    if "transfer-encoding" in headers:
        return None
    try:
        return int(headers.get("content-length", "0"))
    except ValueError:
        return None
