"""What goes to a model provider and what comes back, independent of any wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .messages import Message, ToolCall

Effect = Literal["read", "write", "execute"]
StopReason = Literal["end", "tools", "length", "refusal"]


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as a model sees it.

    `parameters` is a JSON Schema object. `effect` is what the access check looks at: a `read` tool changes nothing.
    `replay_safe` says that another call with the same arguments does no harm and answers the same, as a read does; it
    is kept with `tool.started`, for whoever asks again after a crash. Recovery itself runs no call again. One that is
    not `listed` is offered whatever an agent's `tools` say: its plugin decides who gets it.
    """

    name: str
    description: str
    parameters: dict[str, object]
    effect: Effect = "execute"
    replay_safe: bool = False
    listed: bool = True


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One model call. `model` is the provider's own id; `max_tokens` bounds the answer, None leaves it to the provider.

    `endpoint` is a URL that the agent's file asks for, and may be a stranger's: a provider sends its key to no other
    URL than its own, and goes anywhere else through `Host.egress` or not at all. `options` carries the agent's
    provider-specific wishes (thinking, verbosity) untouched. `session` may serve as a prompt-cache key.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    endpoint: str | None = None
    purpose: str = "turn"
    session: str = ""
    options: dict[str, object] = {}


class TextDelta(Struct, frozen=True):
    """More text of the answer."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """More of the model's reasoning; `signature` closes the block, for providers that want it back."""

    text: str
    signature: str | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one model call. `input` excludes what was read from or written to a prompt cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Stop(Struct, frozen=True):
    """The end of an answer. A stream without it was cut and is a `ModelError` of kind `network`."""

    reason: StopReason
    detail: str = ""


Chunk = TextDelta | ThinkingDelta | ToolCall | Usage | Stop


class Price(Struct, frozen=True, kw_only=True):
    """What a million tokens cost, in `currency` (ISO 4217) as of `date` (ISO 8601).

    `cache_read` and `cache_write` are as `input` where they are None. A request of more than `long_from` tokens costs
    `long`, all of it. Of a price that depends on the hour it is the highest.
    """

    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")]
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
    input: Annotated[float, Meta(ge=0)]
    output: Annotated[float, Meta(ge=0)]
    cache_read: Annotated[float, Meta(ge=0)] | None = None
    cache_write: Annotated[float, Meta(ge=0)] | None = None
    long_from: int | None = None
    long: Price | None = None


class Offer(Struct, frozen=True, kw_only=True):
    """A model that a provider could answer with.

    `model` is `<provider>/<id>`. `ready` tells whether it can answer now and `reason` says why or why not, in a
    sentence a person can act on. `rank` orders the automatic choice, lowest first: 10 a configured key, 20 a local
    server that answers, 90 something that is not a model (`is_model` false: never shown as one). `credential` names the
    key that it would use, as `ModelError` does. `price` is None where nobody says what the model costs.
    """

    model: str
    ready: bool
    reason: str
    rank: int = 50
    is_model: bool = True
    context_window: int = 128_000
    max_tokens: int | None = None
    label: str = ""
    credential: str = ""
    price: Price | None = None
