"""Messages between a session and a model, in blocks that every provider's wire can carry."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, json

# The one key of `ToolCall.arguments` when the model's arguments were no JSON object; its value is their text. Such a
# call is answered with an error and never runs.
MALFORMED = "_malformed"
_BYTES_A_TOKEN = 3.5
_encoder = json.Encoder()

Role = Literal["user", "assistant"]


class Text(Struct, frozen=True, tag="text", tag_field="type"):
    """Plain text, markdown allowed."""

    text: str


class Thinking(Struct, frozen=True, tag="thinking", tag_field="type"):
    """A model's reasoning; `signature` is opaque and goes back only to the provider that made it."""

    text: str
    signature: str | None = None


class ToolCall(Struct, frozen=True, tag="tool_call", tag_field="type"):
    """A model's request to run one tool; `id` pairs it with its `ToolResult`.

    The kernel puts an id of its own, 16 hex digits, in place of the model's. It stays the same while a question waits
    and after a restart.
    """

    id: str
    name: str
    arguments: dict[str, object]


class ToolResult(Struct, frozen=True, tag="tool_result", tag_field="type"):
    """What a tool answered; `error` is true when it failed or never ran."""

    call: str
    text: str
    error: bool = False


class BlobRef(Struct, frozen=True, kw_only=True):
    """Stands for a large value beside the journal: `uri` is `blob:<sha256>`, `size` counts bytes."""

    uri: str
    size: int
    media_type: str

    @property
    def sha256(self) -> str:
        """The hash of the value, in lower-case hex."""
        return self.uri.removeprefix("blob:")


Block = Text | Thinking | ToolCall | ToolResult


class Message(Struct, frozen=True):
    """One side's blocks in order. Tool results belong to the `user` side."""

    role: Role
    content: tuple[Block, ...]


class Piece(Struct, frozen=True, array_like=True):
    """What one event adds to the history, at the place of event `seq`; it tells of the events `first` to `last`."""

    seq: int
    role: Role
    content: tuple[Block, ...]
    first: int
    last: int


def tokens_of(*values: Block | str) -> int:
    """Return about how many tokens these take: one for 3.5 bytes, which is right for English as for Chinese."""
    return round(sum(len(_encoder.encode(value)) for value in values) / _BYTES_A_TOKEN)


def plain_text(content: tuple[Block, ...]) -> str:
    """Return the text blocks of `content` joined, without thinking and calls."""
    return "".join(block.text for block in content if isinstance(block, Text))
