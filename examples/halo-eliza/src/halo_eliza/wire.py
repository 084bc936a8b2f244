"""The wire: one JSON object out, lines of JSON back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import decode

from halo_kernel import (
    MALFORMED,
    Chunk,
    Message,
    ModelErrorKind,
    ModelRequest,
    Stop,
    StopReason,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
)

KINDS: dict[int, ModelErrorKind] = {
    401: "account",
    402: "account",
    403: "account",
    408: "server",
    413: "overflow",
    429: "throttle",
}


class WireCall(Struct, frozen=True):
    """A tool call; `arguments` may be a text that the model wrote, which need be no JSON."""

    id: str
    name: str
    arguments: Any = None


class WireUsage(Struct, frozen=True):
    """Tokens; `cached` ones are among `input`."""

    input: int = 0
    output: int = 0
    cached: int = 0


class Line(Struct, frozen=True):
    """One line of an answer: one field is set, or none, which is a ping."""

    text: str = ""
    call: WireCall | None = None
    usage: WireUsage | None = None
    done: StopReason | None = None


class Fault(Struct, frozen=True):
    """The body of an answer that is none."""

    error: str = ""


def write_request(request: ModelRequest) -> dict[str, object]:
    """Return what is posted."""
    return {
        "model": request.model,
        "system": request.system,
        "messages": [row for message in request.messages for row in _rows(message)],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ],
        "max_tokens": request.max_tokens,
    }


def _rows(message: Message) -> Iterator[dict[str, object]]:
    for block in message.content:
        match block:
            case Text(text=text):
                yield {"by": message.role, "text": text}
            case ToolCall(id=id_, name=name, arguments=arguments):
                yield {"by": message.role, "call": {"id": id_, "name": name, "arguments": arguments}}
            case ToolResult(call=call, text=text, error=error):
                yield {"by": message.role, "result": {"id": call, "text": text, "error": error}}
            case _:
                pass  # this wire has no thinking


def read_chunk(line: Line) -> Chunk:
    """Return what a line says; a ping is a text without letters, which tells the kernel that the connection lives."""
    if line.call is not None:
        return ToolCall(line.call.id, line.call.name, _arguments(line.call.arguments))
    if line.usage is not None:
        used = line.usage
        return Usage(input=max(0, used.input - used.cached), output=used.output, cache_read=used.cached)
    return Stop(line.done) if line.done is not None else TextDelta(line.text)


def _arguments(given: Any) -> dict[str, Any]:
    """Return a call's arguments; what is no JSON object goes on as it is, and the kernel tells the model."""
    try:
        parsed = decode(given or "{}") if isinstance(given, str) else given or {}
    except DecodeError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {MALFORMED: str(given)}


def kind_of(status: int) -> ModelErrorKind:
    """Return what an HTTP status means: which ones are tried again is the kernel's matter."""
    return KINDS.get(status, "server" if status >= 500 else "refused")
