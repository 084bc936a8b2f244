"""The journal's events: an envelope with a sequence number, and one body a kind."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import Struct

from .messages import Block
from .storable import storable

Outcome = Literal["succeeded", "failed", "cancelled", "interrupted", "yielded"]
ToolOutcome = Literal["ok", "error", "denied", "interrupted", "not_run"]


class KernelBody(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What an event of the kernel says; each class below is a kind."""

    v: Literal[1] = 1


class SessionCreated(KernelBody, frozen=True, kw_only=True, tag="session.created"):
    """The session's first event."""

    agent: str
    access: str
    principal: str
    parent: str | None = None
    title: str = ""


class SessionTitled(KernelBody, frozen=True, kw_only=True, tag="session.titled"):
    """A new title, by the first message or by a person."""

    title: str


class SessionMoved(KernelBody, frozen=True, kw_only=True, tag="session.moved"):
    """The session is about another directory of its workspace from now on; '' is the workspace itself."""

    directory: str


class SessionForked(KernelBody, frozen=True, kw_only=True, tag="session.forked"):
    """The journal up to here is a copy of that of the session `source` up to its event `head`."""

    source: str
    head: int


class TurnStarted(KernelBody, frozen=True, kw_only=True, tag="turn.started"):
    """A turn begins; `rows` are the inbox rows it consumed, `cause` why it runs: `message` or `recovery`."""

    rows: tuple[int, ...]
    cause: str
    access: str
    attempt: int = 1


class InputAdded(KernelBody, frozen=True, kw_only=True, tag="input.added"):
    """One consumed inbox row: `text` for people, `content` for the model, `stamp` its arrival (ISO 8601, UTC, ms).

    `cause` is `message` for what somebody sent, `recovery` for what the kernel says after a crash.
    """

    row: int
    key: str
    text: str
    content: str
    sender: str
    stamp: str
    cause: str = "message"


class ContextPrepared(KernelBody, frozen=True, kw_only=True, tag="context.prepared"):
    """The system prompt or the tools changed; `parts` maps `<slot>:<source>` to a digest, `tools` are names."""

    digest: str
    parts: dict[str, str]
    tools: tuple[str, ...]


class AssistantMessage(KernelBody, frozen=True, kw_only=True, tag="assistant.message"):
    """A finished model answer: text, thinking and tool calls. `reply` is the id its deltas carried."""

    reply: str
    content: tuple[Block, ...]
    stop: str
    model: str
    attempt: int = 1


class AssistantDiscarded(KernelBody, frozen=True, kw_only=True, tag="assistant.discarded"):
    """A model call that failed; what it had streamed is not part of the answer. `attempt` counts from 1 a `model`."""

    reply: str
    reason: str
    error: str
    attempt: int
    text: str = ""
    model: str = ""


class AssistantCut(KernelBody, frozen=True, kw_only=True, tag="assistant.cut"):
    """Text that had been streamed when a crash, a cancel or a stop ended the call."""

    reply: str
    text: str
    reason: str


class ToolStarted(KernelBody, frozen=True, kw_only=True, tag="tool.started"):
    """A tool call is about to run; committed before its first effect. One that asks is started twice."""

    call: str
    name: str
    replay_safe: bool = False


class ToolFinished(KernelBody, frozen=True, kw_only=True, tag="tool.finished"):
    """A tool call's result for the model, `ms` its duration. `not_run` is safe to ask for again."""

    call: str
    name: str
    outcome: ToolOutcome
    text: str
    ms: int = 0


class UsageRecorded(KernelBody, frozen=True, kw_only=True, tag="usage.recorded"):
    """Tokens of one model call, time to its first token and to its end in milliseconds.

    `purpose` is `turn`, or what a plugin asked for beside it.
    """

    reply: str
    model: str
    purpose: str = "turn"
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    first_ms: int = 0
    ms: int = 0

    @property
    def tokens(self) -> int:
        """All of them: what the next call begins with."""
        return self.input + self.cache_read + self.cache_write + self.output


class TurnEnded(KernelBody, frozen=True, kw_only=True, tag="turn.ended"):
    """A turn is over. `error` is a sentence for people, `kind` as in `TurnResult`; both empty when it succeeded.

    `yielded`: it gave way to newer input after a tool batch; the turn that takes that input answers for both.
    """

    outcome: Outcome
    error: str = ""
    kind: str = msgspec.field(default="", name="error_kind")  # `kind` is the tag's place in JSON
    steps: int = 0


class QuestionAsked(KernelBody, frozen=True, kw_only=True, tag="question.asked"):
    """A call waits for an answer; the turn is paused until then. `expires_at` is in UTC milliseconds."""

    question: int
    call: str
    tool: str
    text: str
    options: tuple[str, ...] = ()
    expires_at: int = 0


class QuestionSettled(KernelBody, frozen=True, kw_only=True, tag="question.settled"):
    """The answer to a question, or that its time is over; `by` says who."""

    question: int
    call: str
    state: Literal["approved", "denied", "expired"]
    text: str = ""
    by: str = ""


class ContextErased(KernelBody, frozen=True, kw_only=True, tag="context.erased"):
    """The bodies of events `start` to `end` (inclusive) were taken out for good; nothing of them is shown."""

    start: int
    end: int
    by: str


class ExchangeDeleted(KernelBody, frozen=True, kw_only=True, tag="exchange.deleted"):
    """Inbox row `row` and what was answered to it, events `start` to `end` (inclusive), are shown no more."""

    row: int
    start: int
    end: int
    by: str


class CommandFinished(KernelBody, frozen=True, kw_only=True, tag="command.finished"):
    """A person's command (inbox row `row`) was carried out, or refused; `text` answers it, no model sees either.

    The conversation goes on in the session `session`, '' for this one.
    """

    row: int
    said: str
    sender: str
    text: str
    ok: bool = True
    session: str = ""


class HookSkipped(KernelBody, frozen=True, kw_only=True, tag="context.skipped"):
    """A plugin's part of the input or the context was left out because it failed; `plugin` and `hook` name it."""

    plugin: str
    hook: str
    error: str


class ContextCut(KernelBody, frozen=True, kw_only=True, tag="context.cut"):
    """Events `start` to `end` (inclusive) leave the model's history; `replacement` stands in their place.

    Of the tool results that events `cleared` added only a marker is left. `reason` is why there was to be less, `text`
    a notice for people.
    """

    start: int
    end: int
    replacement: str
    reason: str
    cleared: tuple[int, ...] = ()
    text: str = ""


class Foreign(Struct, frozen=True, kw_only=True):
    """An event of a plugin (`<plugin>.<noun>`) or of a newer version; folds show its `text` and skip the rest."""

    kind: str
    data: dict[str, object]

    @property
    def text(self) -> str:
        """The notice for people, or an empty string."""
        text = self.data.get("text", "")
        return text if isinstance(text, str) else ""


Body = KernelBody | Foreign

KINDS = {str(body.__struct_config__.tag): body for body in KernelBody.__subclasses__()}


class Event(Struct, frozen=True, kw_only=True):
    """One fact of a session: `seq` counts from 1 without gaps, `at` is UTC milliseconds, `turn` the turn's id or ''."""

    session: str
    seq: int
    at: int
    turn: str
    body: Body

    @property
    def kind(self) -> str:
        """The body's kind, such as `assistant.message`."""
        return kind_of(self.body)


class Delta(Struct, frozen=True, kw_only=True):
    """A piece of an answer that is not a fact yet: `offset` characters of `reply` came before it."""

    session: str
    turn: str
    reply: str
    offset: int
    text: str
    thinking: bool = False


_encoder = msgspec.json.Encoder()
_decoders = {kind: msgspec.json.Decoder(body) for kind, body in KINDS.items()}
_OURS = {"session", "turn", "input", "assistant", "tool", "context", "command", "exchange", "question", "usage"}
_KIND = re.compile(r"([a-z][a-z0-9_-]*)\.[a-z][a-z0-9_.-]*")


def is_foreign(kind: str) -> bool:
    """Tell whether `kind` is one that a plugin may have, `<plugin>.<noun>`."""
    found = _KIND.fullmatch(kind)
    return found is not None and found[1] not in _OURS


def kind_of(body: Body) -> str:
    """Return the kind of `body`."""
    return body.kind if isinstance(body, Foreign) else str(body.__struct_config__.tag)


def encode_body(body: Body) -> str:
    """Return `body` as the JSON text that the journal stores; what no storage keeps of a text is replaced."""
    value = body.data if isinstance(body, Foreign) else body
    try:
        raw = _encoder.encode(value).decode()
        if "\\u0000" not in raw:
            return raw
    except UnicodeEncodeError:
        pass
    return _encoder.encode(storable(msgspec.to_builtins(value))).decode()


def decode_body(kind: str, raw: str) -> Body:
    """Return the body of a stored event; a kind or version this release does not know comes back as `Foreign`."""
    try:
        return _decoders[kind].decode(raw)
    except (KeyError, msgspec.ValidationError):
        return Foreign(kind=kind, data=msgspec.json.decode(raw, type=dict[str, object]))
