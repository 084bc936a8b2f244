"""A script on the Messages wire: platform.claude.com, "Streaming messages" and "Claude API errors"."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from .anthropic_rules import complaint, signed
from .scripts import Script, ScriptedCall, cut, written

Json = dict[str, Any]

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Messages:
    """See `ScriptedWire`."""

    base = ""
    path = "/v1/messages"
    damaged = b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"ty\n\n'

    def events(self, script: Script, model: str) -> Iterator[bytes]:
        """Yield the body of a streamed answer, one event at a time."""
        usage = _usage(script)
        begun = {key: value for key, value in usage.items() if key != "output_tokens"}
        message = _message(model, [], None) | {"usage": begun | {"output_tokens": 1} if usage else {}}
        yield _event("message_start", message=message)
        for _ in range(1 + script.pings):
            yield _event("ping")
        for event in _blocks(script):
            yield _event(**event)
        if script.finish is not None:
            ended: Json = {"stop_reason": _finish(script), "stop_sequence": None}
            counted = {"usage": usage} if usage else {}
            yield _event("message_delta", delta=ended, **counted)
        if script.done:
            yield _event("message_stop")

    def message(self, script: Script, model: str) -> bytes:
        """Return the body of an answer that is not streamed."""
        content = [block | delta for block, delta in _contents(script)]
        return json.dumps(_message(model, content, _finish(script)) | {"usage": _usage(script)}).encode()

    def failure(self, status: int, message: str, *, streamed: bool) -> bytes:
        """Return a refusal's body, or an error within a stream."""
        error = {"type": _ERRORS.get(status, "api_error"), "message": message}
        if streamed:
            return _event("error", error=error)
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()

    def complaint(self, body: Mapping[str, Any]) -> str:
        """Return what the real server would refuse the request for, '' if nothing."""
        return complaint(body)

    def listed(self, models: Sequence[str]) -> Json:
        """Return the answer to a question for the models."""
        data = [{"type": "model", "id": name, "display_name": name} for name in models]
        return {"data": data, "has_more": False, "first_id": None, "last_id": None}


def _contents(script: Script) -> Iterator[tuple[Json, Json]]:
    """Yield each content block as it begins, and what is then added to it."""
    if script.thinking:
        said = {"thinking": script.thinking, "signature": signed(script.thinking)}
        yield {"type": "thinking", "thinking": "", "signature": ""}, said
    if script.redacted:
        yield {"type": "redacted_thinking", "data": script.redacted}, {}
    if script.text:
        yield {"type": "text", "text": ""}, {"text": script.text}
    for number, call in enumerate(script.calls):
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        yield _call(call, number), {"input": arguments}


def _call(call: ScriptedCall, number: int) -> Json:
    block: Json = {"type": "tool_use", "name": call.name, "input": {}}
    return block | ({} if call.id is None else {"id": call.id or f"toolu_{number}"})


def _blocks(script: Script) -> Iterator[Json]:
    """Yield the events of the content blocks: whole ones one after the other, calls in turns if they are `parallel`."""
    streams: list[list[Json]] = []
    first_call = 0
    for index, (block, added) in enumerate(_contents(script)):
        deltas = list(_deltas(script, index - first_call, block, added))
        first_call += block["type"] != "tool_use"
        begin: Json = {"kind": "content_block_start", "index": index, "content_block": block}
        said = [{"kind": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        streams.append([begin, *said, {"kind": "content_block_stop", "index": index}])
    for stream in streams[:first_call]:
        yield from stream
    calls = streams[first_call:]
    if not script.parallel:
        calls = [[event for stream in calls for event in stream]]
    for turn in range(max(map(len, calls), default=0)):
        yield from (stream[turn] for stream in calls if turn < len(stream))


def _deltas(script: Script, call: int, block: Json, added: Json) -> Iterator[Json]:
    match block["type"]:
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": each} for each in cut(added["thinking"], script.pieces))
            yield {"type": "signature_delta", "signature": added["signature"]}
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in cut(added["text"], script.pieces))
        case "tool_use":
            pieces = cut(written(script.calls[call]), script.fragments)
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces])
        case _:
            pass


def _finish(script: Script) -> str | None:
    return script.finish if script.finish != "" else ("tool_use" if script.calls else "end_turn")


def _usage(script: Script) -> Json:
    return {"input_tokens": 10, "output_tokens": 5} if script.usage is UNSET else script.usage or {}


def _message(model: str, content: Sequence[Json], finish: str | None) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    return head | {"content": list(content), "stop_reason": finish, "stop_sequence": None}


def _event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()
