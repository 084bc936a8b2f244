"""What a scripted chat-completions server says to one request, and how it fails at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call; `arguments` as text is sent as it is. `id` None leaves the id out, `index` None the index."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = ""
    index: int | None = -1


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer.

    It streams `thinking`, then `text` in `pieces` chunks, then `calls` with their arguments in `fragments` chunks each
    (`parallel`: the calls' fragments take turns), then the finish reason, usage and `[DONE]`.

    Delays are in seconds: `first_delay` before the first chunk, `delay` before each other one. A `status` other than
    200 answers with `body` and `headers` instead. Faults count chunks from 0: at `damage_at` a chunk is broken JSON, at
    `error_at` an error object; from `hang_at` on nothing comes any more; at `cut_at`, or after `cut_after_bytes` bytes
    of the body, the answer ends in the way `cut` says: `close` inside the HTTP body, `abort` with a reset, `end` as if
    it were whole. `write_size` sends that many bytes at a time. `whole` ignores the wish for a stream.
    """

    text: str = ""
    pieces: int = 1
    thinking: str = ""
    thinking_field: str = "reasoning_content"
    calls: tuple[ScriptedCall, ...] = ()
    fragments: int = 2
    parallel: bool = False
    finish: str | None = ""
    usage: dict[str, Any] | None = msgspec.field(default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5})
    done: bool = True
    first_delay: float = 0.0
    delay: float = 0.0
    status: int = 200
    headers: dict[str, str] = {}
    body: str = ""
    damage_at: int | None = None
    error_at: int | None = None
    hang_at: int | None = None
    cut_at: int | None = None
    cut_after_bytes: int | None = None
    cut: Literal["close", "abort", "end"] = "close"
    write_size: int | None = None
    whole: bool = False

    def chunks(self, model: str) -> Iterator[bytes]:
        """Yield the body of a streamed answer, one event at a time."""
        for number, chunk in enumerate(self._chunks(model)):
            if number == self.damage_at:
                yield b'data: {"choices": [{"delta": {"con\n\n'
            elif number == self.error_at:
                yield _event({"error": {"message": "the scripted server broke off", "code": 500}})
            else:
                yield chunk

    def message(self, model: str) -> bytes:
        """Return the body of an answer that is not streamed."""
        calls = [_fragment(call, number, _written(call)) for number, call in enumerate(self.calls)]
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish()}
        return json.dumps(
            {"object": "chat.completion", "model": model, "choices": [choice], "usage": self.usage}
        ).encode()

    def error(self) -> bytes:
        """Return the body of a refusal: `body`, or a message in OpenAI's shape."""
        return (self.body or json.dumps({"error": {"message": f"scripted status {self.status}"}})).encode()

    def _chunks(self, model: str) -> Iterator[bytes]:
        for delta in self._deltas():
            yield _event(_chunk(model, delta, None))
        if self.finish is not None:
            yield _event(_chunk(model, {}, self._finish()))
        if self.usage is not None:
            yield _event({"object": "chat.completion.chunk", "model": model, "choices": [], "usage": self.usage})
        if self.done:
            yield b"data: [DONE]\n\n"

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        if self.thinking:
            yield from ({self.thinking_field: piece} for piece in cut(self.thinking, self.pieces))
        if self.text:
            yield from ({"content": piece} for piece in cut(self.text, self.pieces))
        streams = [list(self._fragments(call, number)) for number, call in enumerate(self.calls)]
        if self.parallel:
            longest = max((len(stream) for stream in streams), default=0)
            streams = [[stream[turn] for turn in range(longest) for stream in streams if turn < len(stream)]]
        for stream in streams:
            yield from ({"tool_calls": [fragment]} for fragment in stream)

    def _fragments(self, call: ScriptedCall, number: int) -> Iterator[dict[str, Any]]:
        first, *others = cut(_written(call), self.fragments) or [""]
        head = _fragment(call, number, first)
        yield head
        for piece in others:
            fragment: dict[str, Any] = {"function": {"arguments": piece}}
            yield fragment | ({"index": head["index"]} if "index" in head else {})

    def _finish(self) -> str | None:
        return self.finish if self.finish != "" else ("tool_calls" if self.calls else "stop")


def cut(text: str, pieces: int) -> list[str]:
    """Cut `text` into at most `pieces` pieces of about one length."""
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def read_scripts(raw: bytes) -> tuple[Script, ...]:
    """Read a JSON array of scripts. Raises `msgspec.ValidationError`, which names the field and the rule."""
    return msgspec.json.decode(raw, type=tuple[Script, ...])


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _chunk(model: str, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": [choice]}


def _written(call: ScriptedCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def _fragment(call: ScriptedCall, number: int, arguments: str) -> dict[str, Any]:
    fragment: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    if call.index is not None:
        fragment["index"] = number if call.index < 0 else call.index
    if call.id is not None:
        fragment["id"] = call.id or f"call_{number}"
    return fragment
