"""One model call: streamed, bounded by idle time, retried by the kernel alone, each failed attempt reported."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from ..contracts import Clock, ModelCall, ModelProvider
from ..errors import ModelError
from ..records import Block, Chunk, ModelRequest, Stop, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, Usage
from ..records.storable import storable, storable_text
from ..secrets import MaskedStream, Redactor
from ..supervisor import bounded, contained, end_task

_SLOW = {"throttle", "server"}
_RETRIED = _SLOW | {"network", "timeout", "empty"}
_LONGEST_WAIT = 60.0
_SHORT_WAIT = 5.0  # nobody waits longer for a model while there is another one to ask
_SAID = 2_000  # of what a vendor says of an error, in characters
_NAME_CHARS = 256  # no provider takes tools of longer names, so a longer one is made up
_KEEP_ALIVE = TextDelta("")
CLOSE_SECONDS = 5.0
_ending: dict[asyncio.Task[None], ModelProvider] = {}  # streams that have given their answer, until they have ended


@dataclass(kw_only=True)
class Attempt:
    """What one attempt has streamed so far, without secrets, and when, in seconds by the monotonic clock.

    `said` and `thought` hold back what may begin a secret. `stop` counts once it is `whole`. `spent` is what all
    attempts of the call reported, by their replies.
    """

    reply: str
    model: str
    number: int
    said: MaskedStream
    thought: MaskedStream
    started: float
    spent: dict[str, Usage | None]
    first: float | None = None
    ended: float = 0.0
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    usage: Usage = field(default_factory=Usage)
    stop: Stop = field(default_factory=lambda: Stop("end"))
    whole: bool = False
    over: bool = False

    @property
    def content(self) -> tuple[Block, ...]:
        """What it says, in blocks."""
        # a provider may want thinking back that nobody can read
        thoughts = [Thinking(self.thinking, self.signature)] if self.thinking or self.signature else []
        texts = [Text(self.text)] if self.text else []
        return (*thoughts, *texts, *self.calls)


class Listener:
    """Follows a model call; this one does nothing about it."""

    def said(self, attempt: Attempt, text: str, thinking: bool) -> None:
        """More has come, which is not in `attempt` yet."""

    async def failed(self, attempt: Attempt, error: ModelError) -> None:
        """An attempt has failed; this is awaited before the next one."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Calls models; `idle_timeout` is in seconds without any data, `max_attempts` for each call."""

    clock: Clock
    mask: Redactor
    idle_timeout: float
    max_attempts: int

    async def ask(self, provider: ModelProvider, call: ModelCall, listener: Listener, *, others: bool) -> Attempt:
        """Ask `provider` until an answer is whole, and return it; what each attempt reports goes to `call.spent`.

        With `others`, which can be asked instead, there are two attempts at most, without a long wait between them, and
        a silent model has one. Raises the last `ModelError`.
        """
        number = 0
        while True:
            number += 1
            attempt = Attempt(
                reply=self.clock.new_id(64),
                model=f"{provider.name}/{call.request.model}",
                number=number,
                said=self.mask.stream(),
                thought=self.mask.stream(),
                started=self.clock.monotonic(),
                spent=call.spent,
            )
            call.spent[attempt.reply] = None
            try:
                await self._stream(provider, call.request, attempt, listener)
                return _whole(attempt)
            except ModelError as error:
                error.message, error.advice = self.mask(error.message)[:_SAID], self.mask(error.advice)[:_SAID]
                await listener.failed(attempt, error)
                wait = _wait_before_next(error, number)
                enough = others and (number > 1 or wait > _SHORT_WAIT or error.kind == "timeout")
                if enough or number >= self.max_attempts or error.kind not in _RETRIED:
                    raise
                await self.clock.sleep(wait)

    async def _stream(
        self, provider: ModelProvider, request: ModelRequest, attempt: Attempt, listener: Listener
    ) -> None:
        """Take chunks until the answer is whole. Nothing waits for a provider that is silent, deaf or slow to close."""
        loop = asyncio.get_running_loop()
        heard = loop.time()

        async def listen() -> None:
            nonlocal heard
            async for chunk in chunks:
                if attempt.over:
                    return
                heard = loop.time()
                if attempt.first is None and chunk != _KEEP_ALIVE:
                    attempt.first = self.clock.monotonic()
                _take(attempt, chunk, self.clock, listener)
                if attempt.whole:
                    return

        chunks = provider.stream(request)
        listening = asyncio.ensure_future(contained(listen()))
        try:
            while not listening.done() and (left := heard + self.idle_timeout - loop.time()) > 0:
                await asyncio.wait({listening}, timeout=left)
            if not listening.done():
                raise ModelError(f"the model sent nothing for {self.idle_timeout:g} seconds", kind="timeout")
            _raise_failure(provider.name, listening)
        finally:
            attempt.over, attempt.ended = True, self.clock.monotonic()
            hanging_up = _hang_up(provider.name, listening, chunks, whole=attempt.whole)
            if attempt.whole:  # meanwhile the answer is used already
                task = asyncio.ensure_future(hanging_up)
                _ending[task] = provider
                task.add_done_callback(_ending.pop)
            else:
                await hanging_up


def _raise_failure(provider: str, listening: asyncio.Task[None]) -> None:
    if listening.cancelled():
        raise ModelError(f"provider {provider} gave the call up", kind="network")
    error = listening.exception()
    if isinstance(error, ModelError):
        raise error
    if error is not None:
        raise ModelError(f"provider {provider} failed: {error!r}", kind="refused") from error


async def _hang_up(
    provider: str, listening: asyncio.Task[None], chunks: AsyncGenerator[Chunk, None], *, whole: bool
) -> None:
    """End a call's stream, once nobody listens to it any more."""
    await end_task(listening, name=f"stream of {provider}", within=CLOSE_SECONDS)
    if listening.done():
        with suppress(Exception):
            await bounded(_close(chunks, whole), name=f"close of {provider}", seconds=CLOSE_SECONDS)


async def _close(chunks: AsyncGenerator[Chunk, None], whole: bool) -> None:
    """Close a stream; a whole one ends by itself, which keeps its connection: a new one would cost a handshake."""
    if whole:
        await anext(chunks, None)
    await chunks.aclose()


async def hung_up(provider: ModelProvider) -> None:
    """Return once no stream of `provider` is still about to end after its answer."""
    if tasks := [task for task, owner in _ending.items() if owner is provider]:
        await asyncio.wait(tasks)


def _checked(chunk: object) -> Chunk:
    """Return a chunk as its type says it is, with storable text; providers are plugins."""
    if not isinstance(chunk, TextDelta | ThinkingDelta | ToolCall | Usage | Stop):
        raise ModelError(f"the provider sent {type(chunk).__name__}, which is no chunk", kind="refused")
    if isinstance(chunk, TextDelta) and type(chunk.text) is str:  # as nearly every chunk, not worth taking apart
        return TextDelta(storable_text(chunk.text))
    return msgspec.convert(storable(msgspec.to_builtins(chunk)), type(chunk))


def _take(attempt: Attempt, chunk: object, clock: Clock, listener: Listener) -> None:
    match _checked(chunk):
        case TextDelta(text=text):
            _show(attempt, attempt.said.feed(text), listener, thinking=False)
        case ThinkingDelta(text=text, signature=signature):
            _show(attempt, attempt.thought.feed(text), listener, thinking=True)
            attempt.signature = signature or attempt.signature
        case ToolCall(name=name, arguments=arguments):
            attempt.calls.append(ToolCall(clock.new_id(64), name[:_NAME_CHARS], arguments))
        case Usage() as usage:
            attempt.usage = attempt.spent[attempt.reply] = usage
        case Stop() as stop:
            _show(attempt, attempt.thought.end(), listener, thinking=True)
            _show(attempt, attempt.said.end(), listener, thinking=False)
            attempt.stop, attempt.whole = stop, True


def _show(attempt: Attempt, text: str, listener: Listener, *, thinking: bool) -> None:
    if not text:
        return
    listener.said(attempt, text, thinking)
    if thinking:
        attempt.thinking += text
    else:
        attempt.text += text


def _whole(attempt: Attempt) -> Attempt:
    """Return an attempt that has come to an answer; raise `ModelError` for any other."""
    if not attempt.whole:
        raise ModelError("the stream ended before the answer did", kind="network")
    if attempt.text.strip() or attempt.calls or attempt.stop.reason == "refusal":
        return attempt
    if attempt.stop.reason == "length":  # asking again would end the same way
        said, advice = "the limit of its answer's length", "let it think less, or allow longer answers"
        raise ModelError(f"the model reached {said} before it said anything", kind="refused", advice=advice)
    raise ModelError("the model answered with nothing", kind="empty")


def _wait_before_next(error: ModelError, number: int) -> float:
    """Return seconds: what the provider asked for, else 2 s (slow kinds) or 1 s doubled each time, with jitter."""
    if error.retry_after is not None:
        return min(error.retry_after, _LONGEST_WAIT)
    base = 2.0 if error.kind in _SLOW else 1.0
    return min(base * float(2 ** min(number - 1, 6)), _LONGEST_WAIT) + random.random() * base / 2
