"""One model call: streamed, bounded by idle time, retried by the kernel alone, each failed attempt reported."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..contracts import Clock, ModelProvider
from ..errors import ModelError
from ..records import Block, Chunk, ModelRequest, Stop, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, Usage
from ..records.storable import storable, storable_text
from ..secrets import MaskedStream, Redactor
from ..supervisor import contained, end_task

_SLOW = {"throttle", "server"}
_RETRIED = _SLOW | {"network", "timeout", "empty"}
_LONGEST_WAIT = 60.0
_SHORT_WAIT = 5.0  # nobody waits longer for a model while there is another one to ask
_NAME_CHARS = 256  # no provider takes tools of longer names, so a longer one is made up
_KEEP_ALIVE = TextDelta("")
CLOSE_SECONDS = 5.0
_ending: dict[asyncio.Task[None], ModelProvider] = {}  # streams that have given their answer, until they have ended


@dataclass
class Attempt:
    """What one attempt has streamed so far, without secrets; `said` and `thought` hold back what may begin one."""

    reply: str
    model: str
    number: int
    said: MaskedStream
    thought: MaskedStream
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    usage: Usage = field(default_factory=Usage)
    stop: Stop | None = None
    started: float = 0.0
    first: float | None = None
    over: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The whole answer that an attempt has come to; times in milliseconds."""

    attempt: Attempt
    content: tuple[Block, ...]
    stop: Stop
    first_ms: int
    ms: int


OnDelta = Callable[[Attempt, str, bool], None]
OnFailure = Callable[[Attempt, ModelError], Awaitable[None]]


async def call_model(
    provider: ModelProvider,
    request: ModelRequest,
    *,
    clock: Clock,
    idle_timeout: float,
    max_attempts: int,
    others: bool,
    mask: Redactor,
    on_delta: OnDelta,
    on_failure: OnFailure,
) -> Answer:
    """Ask `provider` until an answer is whole, and return it.

    `idle_timeout` is in seconds without any data. With `others`, which can be asked instead, there are two attempts at
    most, without a long wait between them, and a silent model has one. `on_delta` gets each piece (attempt, text,
    is_thinking); `on_failure` is awaited after each failed attempt, before the wait for the next one. Raises the last
    `ModelError`.
    """
    model = f"{provider.name}/{request.model}"
    number = 0
    while True:
        number += 1
        reply, said, thought = clock.new_id(64), mask.stream(), mask.stream()
        attempt = Attempt(reply, model, number, said, thought, started=clock.monotonic())
        try:
            await _stream(provider, request, attempt, clock, idle_timeout, on_delta)
            return _answer(attempt, clock)
        except ModelError as error:
            await on_failure(attempt, error)
            wait = _wait_before_next(error, number)
            enough = others and (number > 1 or wait > _SHORT_WAIT or error.kind == "timeout")
            if enough or number >= max_attempts or error.kind not in _RETRIED:
                raise
            await clock.sleep(wait)


async def _stream(
    provider: ModelProvider, request: ModelRequest, attempt: Attempt, clock: Clock, idle: float, on_delta: OnDelta
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
                attempt.first = clock.monotonic()
            _take(attempt, chunk, on_delta)
            if attempt.stop is not None:
                return

    chunks = provider.stream(request)
    listening = asyncio.ensure_future(contained(listen()))
    try:
        while not listening.done() and (left := heard + idle - loop.time()) > 0:
            await asyncio.wait({listening}, timeout=left)
        if not listening.done():
            raise ModelError(f"the model sent nothing for {idle:g} seconds", kind="timeout")
        _raise_failure(provider.name, listening)
    finally:
        attempt.over = True
        if attempt.stop is None:
            await _hang_up(provider.name, listening, _close(chunks))
        else:
            _let_go(provider, _hang_up(provider.name, listening, _run_out(chunks)))


def _raise_failure(provider: str, listening: asyncio.Task[None]) -> None:
    if listening.cancelled():
        raise ModelError(f"provider {provider} gave the call up", kind="network")
    error = listening.exception()
    if isinstance(error, ModelError):
        raise error
    if error is not None:
        raise ModelError(f"provider {provider} failed: {error!r}", kind="refused") from error


async def _hang_up(provider: str, listening: asyncio.Task[None], ending: Coroutine[Any, Any, None]) -> None:
    """End a call's stream by `ending`, once nobody listens to it any more."""
    await end_task(listening, name=f"stream of {provider}", within=CLOSE_SECONDS)
    if not listening.done():
        ending.close()
        return
    task = asyncio.ensure_future(contained(ending))
    await asyncio.wait({task}, timeout=CLOSE_SECONDS)
    await end_task(task, name=f"close of {provider}", within=0.1)


async def _close(chunks: AsyncGenerator[Chunk, None]) -> None:
    await chunks.aclose()


async def _run_out(chunks: AsyncGenerator[Chunk, None]) -> None:
    """Let a stream end by itself after its stop, which keeps its connection for the next call; else close it.

    A new connection would cost every call a handshake.
    """
    await anext(chunks, None)
    await chunks.aclose()


def _let_go(provider: ModelProvider, hanging_up: Coroutine[Any, Any, None]) -> None:
    """Hang up while the answer, which is whole, is used already."""
    task = asyncio.ensure_future(hanging_up)
    _ending[task] = provider
    task.add_done_callback(_ending.pop)


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


def _take(attempt: Attempt, chunk: object, on_delta: OnDelta) -> None:
    match _checked(chunk):
        case TextDelta(text=text):
            _show(attempt, attempt.said.feed(text), on_delta, thinking=False)
        case ThinkingDelta(text=text, signature=signature):
            _show(attempt, attempt.thought.feed(text), on_delta, thinking=True)
            attempt.signature = signature or attempt.signature
        case ToolCall() as call:
            attempt.calls.append(call)
        case Usage() as usage:
            attempt.usage = usage
        case Stop() as stop:
            _show(attempt, attempt.thought.end(), on_delta, thinking=True)
            _show(attempt, attempt.said.end(), on_delta, thinking=False)
            attempt.stop = stop


def _show(attempt: Attempt, text: str, on_delta: OnDelta, *, thinking: bool) -> None:
    if not text:
        return
    on_delta(attempt, text, thinking)
    if thinking:
        attempt.thinking += text
    else:
        attempt.text += text


def _answer(attempt: Attempt, clock: Clock) -> Answer:
    if attempt.stop is None:
        raise ModelError("the stream ended before the answer did", kind="network")
    content: list[Block] = []
    if attempt.thinking or attempt.signature:  # a provider may want thinking back that nobody can read
        content.append(Thinking(attempt.thinking, attempt.signature))
    if attempt.text:
        content.append(Text(attempt.text))
    content += [ToolCall(clock.new_id(64), call.name[:_NAME_CHARS], call.arguments) for call in attempt.calls]
    if not attempt.text.strip() and not attempt.calls and attempt.stop.reason != "refusal":
        raise _nothing(attempt.stop)
    end = clock.monotonic()
    return Answer(
        attempt=attempt,
        content=tuple(content),
        stop=attempt.stop,
        first_ms=round(((attempt.first or end) - attempt.started) * 1000),
        ms=round((end - attempt.started) * 1000),
    )


def _nothing(stop: Stop) -> ModelError:
    if stop.reason == "length":  # asking again would end the same way
        return ModelError(
            "the model reached the limit of its answer's length before it said anything",
            kind="refused",
            advice="let it think less, or allow longer answers",
        )
    return ModelError("the model answered with nothing", kind="empty")


def _wait_before_next(error: ModelError, number: int) -> float:
    """Return seconds: what the provider asked for, else 2 s (slow kinds) or 1 s doubled each time, with jitter."""
    if error.retry_after is not None:
        return min(error.retry_after, _LONGEST_WAIT)
    base = 2.0 if error.kind in _SLOW else 1.0
    return min(base * float(2 ** min(number - 1, 6)), _LONGEST_WAIT) + random.random() * base / 2
