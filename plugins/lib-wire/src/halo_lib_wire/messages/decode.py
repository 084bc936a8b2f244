"""The events of a streamed message as the kernel's chunks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from halo_kernel import Chunk, ModelError, Stop, TextDelta, ThinkingDelta, Usage

from ..calls import CallParts
from ..chunks import read_chunk
from ..faults import stream_error
from ..loose import items, mapping, number, text
from ..surrogates import Joiner, sound
from .seal import Called, Part, Redacted, Said, Seal, Signed

_LENGTHS = {"max_tokens", "model_context_window_exceeded"}
_KEEP_ALIVE = TextDelta("")


@dataclass
class _Block:
    """One content block as far as it has come; `whole` is a call's input that came with its beginning."""

    kind: str
    id: str = ""
    data: str = ""
    signature: str = ""
    chars: int = 0
    whole: str = ""
    joiner: Joiner = field(default_factory=Joiner)

    def part(self) -> Part | None:
        """Return what the seal has to know of it."""
        if self.kind == "thinking":
            return Signed(self.chars, sound(self.signature))
        if self.kind == "redacted_thinking":
            return Redacted(sound(self.data))
        if self.kind == "text":
            return Said(self.chars)
        return Called(sound(self.id)) if self.kind == "tool_use" else None


class MessagesDecoder:
    """Decodes one answer: `feed` the data of each event, then `finish`.

    `new_id` makes ids for tool calls that came without one; `issuer` is who answers. Text and thinking come out of
    `feed` as they arrive, and an empty `TextDelta` for each `ping`; whole tool calls, the seal of the thinking, usage
    and the one `Stop` out of `finish`. Calls of a refused answer are dropped. Blocks that are none of text, thinking
    and a call of ours are passed over.
    """

    def __init__(self, *, new_id: Callable[[], str], issuer: str) -> None:
        self.done = False
        self._issuer = issuer
        self._calls = CallParts(new_id)
        self._blocks: dict[int, _Block] = {}
        self._reason = ""
        self._refusal = ""
        self._tokens: dict[str, int] = {}

    def feed(self, data: str, *, tail: bool = False) -> list[Chunk]:
        """Take one event's data and return what it adds; `message_stop` sets `done`.

        See `read_chunk` for `tail`. Raises `ModelError`: what the server reports, or `network` for broken JSON.
        """
        event = read_chunk(data, tail=tail)
        match event.get("type"):
            case "message_start":
                self._note_usage(mapping(event.get("message")))
            case "content_block_start":
                return self._begin(number(event.get("index")), mapping(event.get("content_block")))
            case "content_block_delta":
                return self._delta(number(event.get("index")), mapping(event.get("delta")))
            case "content_block_stop":
                return self._end(number(event.get("index")))
            case "message_delta":
                self._note_end(mapping(event.get("delta")))
                self._note_usage(event)
            case "message_stop":
                self.done = True
            case "message":
                return self._whole(event)
            case "ping":
                return [_KEEP_ALIVE]
            case _ if event.get("error"):
                raise stream_error(event)
            case _:
                pass
        return []

    def finish(self) -> list[Chunk]:
        """Return what is left, `Stop` last. Raises `ModelError` of kind `network` when the answer was cut."""
        if not self._reason and not self.done:
            raise ModelError("the stream ended before the answer did", kind="network")
        chunks = [chunk for index in self._blocks for chunk in self._end(index)]
        stop = self._stop()
        calls = [] if stop.reason == "refusal" else self._calls.close()
        if calls:
            # Cut by the output limit, the last call's arguments are malformed, which the model is then told.
            stop = Stop("tools", "length" if stop.reason == "length" else "")
        chunks += [*self._sealed(), *calls]
        if self._tokens:
            chunks.append(self._usage())
        return [*chunks, stop]

    def _whole(self, message: Mapping[str, object]) -> list[Chunk]:
        """Take the answer of a server that does not stream."""
        chunks: list[Chunk] = []
        for index, block in enumerate(map(mapping, items(message.get("content")))):
            chunks += self._begin(index, block) + self._end(index)
        self._note_end(message)
        self._note_usage(message)
        self.done = True
        return chunks

    def _begin(self, index: int, content: Mapping[str, object]) -> list[Chunk]:
        kind = text(content.get("type"))
        block = self._blocks[index] = _Block(
            kind,
            id=text(content.get("id")),
            data=text(content.get("data")),
            signature=text(content.get("signature")),
        )
        if kind == "tool_use":
            given = mapping(content.get("input"))
            block.whole = json.dumps(given) if given else text(content.get("input"))
            self._calls.add(index=index, id=block.id, name=text(content.get("name")), arguments="")
        return self._said(block, text(content.get("text")) or text(content.get("thinking")))

    def _delta(self, index: int, delta: Mapping[str, object]) -> list[Chunk]:
        kind = text(delta.get("type"))
        if kind == "input_json_delta":
            self._add_input(index, text(delta.get("partial_json")))
        elif kind == "signature_delta":
            self._open(index, "thinking").signature += text(delta.get("signature"))
        elif kind == "thinking_delta":
            return self._said(self._open(index, "thinking"), text(delta.get("thinking")))
        elif kind == "text_delta":
            return self._said(self._open(index, "text"), text(delta.get("text")))
        return []

    def _open(self, index: int, kind: str) -> _Block:
        """Return the block at `index`; a server may have left its beginning out."""
        return self._blocks.setdefault(index, _Block(kind))

    def _add_input(self, index: int, piece: str) -> None:
        """Take a piece of a call's input, which is then the whole input: nothing of what it began with counts."""
        block = self._blocks.get(index)
        if piece and block is not None and block.kind == "tool_use":
            block.whole = ""
            self._calls.add(index=index, id="", name="", arguments=piece)

    def _end(self, index: int) -> list[Chunk]:
        block = self._blocks.get(index)
        if block is None:
            return []
        if block.whole:
            self._add_input(index, block.whole)
        return _delta_of(block, block.joiner.close())

    def _said(self, block: _Block, piece: str) -> list[Chunk]:
        return _delta_of(block, block.joiner.feed(piece)) if piece else []

    def _sealed(self) -> list[Chunk]:
        """Return the seal, if any of the thinking can go back."""
        parts = [part for block in self._blocks.values() if (part := block.part())]
        if not any(isinstance(part, Redacted) or (isinstance(part, Signed) and part.signature) for part in parts):
            return []
        return [ThinkingDelta("", Seal(self._issuer, tuple(parts)).text())]

    def _note_end(self, delta: Mapping[str, object]) -> None:
        self._reason = text(delta.get("stop_reason")) or self._reason
        self._refusal = text(mapping(delta.get("stop_details")).get("explanation")) or self._refusal

    def _stop(self) -> Stop:
        if self._reason == "refusal":
            return Stop("refusal", sound(self._refusal) or "refusal")
        if self._reason in _LENGTHS:
            return Stop("length")
        return Stop("end", "" if self._reason in ("", "end_turn", "tool_use") else sound(self._reason))

    def _note_usage(self, holder: Mapping[str, object]) -> None:
        """Keep the highest counts: those at the end are totals, but some servers leave the input's out there."""
        for name, value in mapping(holder.get("usage")).items():
            self._tokens[name] = max(number(value), self._tokens.get(name, 0))

    def _usage(self) -> Usage:
        tokens = self._tokens.get
        return Usage(
            input=tokens("input_tokens", 0),
            output=tokens("output_tokens", 0),
            cache_read=tokens("cache_read_input_tokens", 0),
            cache_write=tokens("cache_creation_input_tokens", 0),
        )


def _delta_of(block: _Block, piece: str) -> list[Chunk]:
    if not piece or block.kind not in ("text", "thinking"):
        return []
    block.chars += len(piece)
    return [ThinkingDelta(piece) if block.kind == "thinking" else TextDelta(piece)]
