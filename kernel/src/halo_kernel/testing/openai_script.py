"""A script on the chat-completions wire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from .openai_rules import complaint
from .scripts import Script, ScriptedCall, cut, read_scripts, written

__all__ = ["ChatCompletions", "Script", "ScriptedCall", "cut", "read_scripts"]


class ChatCompletions:
    """See `ScriptedWire`."""

    base = "/v1"
    path = "/chat/completions"
    damaged = b'data: {"choices": [{"delta": {"con\n\n'

    def events(self, script: Script, model: str) -> Iterator[bytes]:
        """Yield the body of a streamed answer, one event at a time."""
        yield from [b": ping\n\n"] * script.pings
        for delta in _deltas(script):
            yield _event(_chunk(model, delta, None))
        if script.finish is not None:
            yield _event(_chunk(model, {}, _finish(script)))
        if script.usage is not None:
            usage = _usage(script)
            yield _event({"object": "chat.completion.chunk", "model": model, "choices": [], "usage": usage})
        if script.done:
            yield b"data: [DONE]\n\n"

    def message(self, script: Script, model: str) -> bytes:
        """Return the body of an answer that is not streamed."""
        calls = [_fragment(call, number, written(call)) for number, call in enumerate(script.calls)]
        message: dict[str, Any] = {"role": "assistant", "content": script.text}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": _finish(script)}
        usage = _usage(script)
        return json.dumps({"object": "chat.completion", "model": model, "choices": [choice], "usage": usage}).encode()

    def failure(self, status: int, message: str, *, streamed: bool) -> bytes:
        """Return a refusal's body, or an error within a stream."""
        error: dict[str, Any] = {"error": {"message": message}}
        if not streamed:
            return json.dumps(error).encode()
        error["error"]["code"] = status
        return _event(error)

    def complaint(self, body: Mapping[str, Any]) -> str:
        """Return what chat completions would refuse."""
        return complaint(body)

    def listed(self, models: Sequence[str]) -> dict[str, Any]:
        """Return the answer to a question for the models."""
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in models]}


def _deltas(script: Script) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if script.thinking:
        yield from ({script.thinking_field: piece} for piece in cut(script.thinking, script.pieces))
    if script.text:
        yield from ({"content": piece} for piece in cut(script.text, script.pieces))
    streams = [list(_fragments(call, number, script.fragments)) for number, call in enumerate(script.calls)]
    if script.parallel:
        longest = max((len(stream) for stream in streams), default=0)
        streams = [[stream[turn] for turn in range(longest) for stream in streams if turn < len(stream)]]
    for stream in streams:
        yield from ({"tool_calls": [fragment]} for fragment in stream)


def _fragments(call: ScriptedCall, number: int, pieces: int) -> Iterator[dict[str, Any]]:
    first, *others = cut(written(call), pieces) or [""]
    head = _fragment(call, number, first)
    yield head
    for piece in others:
        fragment: dict[str, Any] = {"function": {"arguments": piece}}
        yield fragment | ({"index": head["index"]} if "index" in head else {})


def _fragment(call: ScriptedCall, number: int, arguments: str) -> dict[str, Any]:
    fragment: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    if call.index is not None:
        fragment["index"] = number if call.index < 0 else call.index
    if call.id is not None:
        fragment["id"] = call.id or f"call_{number}"
    return fragment


def _finish(script: Script) -> str | None:
    return script.finish if script.finish != "" else ("tool_calls" if script.calls else "stop")


def _usage(script: Script) -> dict[str, Any] | None:
    return {"prompt_tokens": 10, "completion_tokens": 5} if script.usage is UNSET else script.usage


def _chunk(model: str, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": [choice]}


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
