"""The chunks of a streamed chat completion as the kernel's chunks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from halo_kernel import Chunk, ModelError, Stop, TextDelta, ThinkingDelta, Usage

from ..calls import CallParts
from ..chunks import read_chunk
from ..faults import stream_error
from ..loose import items, mapping, number, text
from ..surrogates import Joiner, sound
from .think import ThinkTags

# `sensitive` and `network_error` are Zhipu's, `insufficient_system_resource` is DeepSeek's.
_REFUSALS = {"content_filter", "refusal", "sensitive"}
_LENGTHS = {"length", "max_tokens", "model_context_window_exceeded"}
_BREAKDOWNS = {"insufficient_system_resource", "network_error", "error"}


class ChatDecoder:
    """Decodes one answer: `feed` the data of each event, then `finish`.

    `new_id` makes ids for tool calls that came without one. Text and reasoning come out of `feed` as they arrive; whole
    tool calls, usage and the one `Stop` out of `finish`. An answer that holds calls stops for `tools`, whatever the
    server said (some say `stop`); only a refusal drops them, for nothing of a refused answer may run.
    """

    def __init__(self, *, new_id: Callable[[], str], think_tags: bool = False) -> None:
        self.done = False
        self._parts = CallParts(new_id)
        self._tags = ThinkTags() if think_tags else None
        self._text, self._thinking = Joiner(), Joiner()
        self._refusal = ""
        self._reason: str | None = None
        self._usage: Usage | None = None

    def feed(self, data: str, *, tail: bool = False) -> list[Chunk]:
        """Take one event's data and return what it adds; `[DONE]` sets `done`.

        See `read_chunk` for `tail`. Raises `ModelError`: what the server reports, or `network` for broken JSON.
        """
        if data.strip() == "[DONE]":
            self.done = True
            return []
        return self._chunk(read_chunk(data, tail=tail))

    def finish(self) -> list[Chunk]:
        """Return what is left, `Stop` last. Raises `ModelError` of kind `network` when the answer was cut."""
        if self._reason is None and not self.done:
            raise ModelError("the stream ended before the answer did", kind="network")
        if self._reason in _BREAKDOWNS:
            raise ModelError(f"the server gave up in the middle of the answer ({self._reason})", kind="server")
        chunks = self._rest()
        stop = self._stop()
        calls = [] if stop.reason == "refusal" else self._parts.close()
        if calls:
            # Cut by the output limit, the last call's arguments are malformed, which the model is then told.
            stop = Stop("tools", "length" if stop.reason == "length" else "")
        chunks += calls
        if self._usage is not None:
            chunks.append(self._usage)
        return [*chunks, stop]

    def _chunk(self, chunk: Mapping[str, object]) -> list[Chunk]:
        if chunk.get("error"):
            raise stream_error(chunk)
        self._note_usage(chunk.get("usage"))
        chunks: list[Chunk] = []
        for choice in map(mapping, items(chunk.get("choices"))[:1]):
            # A server that does not stream answers with one whole `message`.
            delta = mapping(choice.get("delta")) or mapping(choice.get("message"))
            chunks += self._delta(delta)
            self._note_usage(choice.get("usage"))
            self._reason = text(choice.get("finish_reason")) or self._reason
        return chunks

    def _delta(self, delta: Mapping[str, object]) -> list[Chunk]:
        chunks = self._as_thinking(text(delta.get("reasoning_content")) or text(delta.get("reasoning")))
        content = text(delta.get("content"))
        if content:
            thought, content = self._tags.feed(content) if self._tags else ("", content)
            chunks += self._as_thinking(thought) + self._as_text(content)
        self._refusal += text(delta.get("refusal"))
        for fragment in map(mapping, items(delta.get("tool_calls"))):
            self._fragment(fragment)
        return chunks

    def _fragment(self, fragment: Mapping[str, object]) -> None:
        function, index = mapping(fragment.get("function")), fragment.get("index")
        arguments = function.get("arguments")
        self._parts.add(
            index=index if isinstance(index, int) else None,
            id=text(fragment.get("id")),
            name=text(function.get("name")),
            arguments=json.dumps(arguments) if isinstance(arguments, Mapping) else text(arguments),
        )

    def _as_text(self, piece: str) -> list[Chunk]:
        whole = self._text.feed(piece) if piece else ""
        return [TextDelta(whole)] if whole else []

    def _as_thinking(self, piece: str) -> list[Chunk]:
        whole = self._thinking.feed(piece) if piece else ""
        return [ThinkingDelta(whole)] if whole else []

    def _rest(self) -> list[Chunk]:
        thought, content = self._tags.close() if self._tags else ("", "")
        chunks = self._as_thinking(thought) + self._as_text(content)
        chunks += [ThinkingDelta(held) for held in [self._thinking.close()] if held]
        return chunks + [TextDelta(held) for held in [self._text.close()] if held]

    def _stop(self) -> Stop:
        if self._refusal or self._reason in _REFUSALS:
            return Stop("refusal", sound(self._refusal) or self._reason or "")
        return Stop("length" if self._reason in _LENGTHS else "end")

    def _note_usage(self, value: object) -> None:
        """Keep the last usage seen: some servers send a running one, Kimi puts it into the choice."""
        usage = mapping(value)
        if not usage:
            return
        prompt = number(usage.get("prompt_tokens"))
        cached = min(prompt, _cached(usage))
        self._usage = Usage(input=prompt - cached, output=number(usage.get("completion_tokens")), cache_read=cached)


def _cached(usage: Mapping[str, object]) -> int:
    """Return the cached part of the prompt, under whichever name the vendor gives it."""
    names = ("prompt_cache_hit_tokens", "cache_read_tokens", "cached_tokens")
    details = number(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return details or next((found for name in names if (found := number(usage.get(name)))), 0)
