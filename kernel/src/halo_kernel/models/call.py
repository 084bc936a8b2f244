"""One model call: streamed, bounded by idle time, retried by the kernel alone, each failed attempt reported."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from ..contracts import Clock, ModelProvider
from ..errors import ModelError
from ..records import Block, ModelRequest, Stop, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, Usage

_SLOW = {"throttle", "server"}
_QUICK = {"network", "timeout", "empty"}
_RETRIED = _SLOW | _QUICK
_LONGEST_WAIT = 60.0
_KEEP_ALIVE = TextDelta("")


@dataclass
class Attempt:
    """What one attempt has streamed so far."""

    reply: str
    number: int
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    usage: Usage = field(default_factory=Usage)
    stop: Stop | None = None
    started: float = 0.0
    first: float | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole model answer with its figures; times in milliseconds."""

    reply: str
    attempt: int
    content: tuple[Block, ...]
    stop: Stop
    usage: Usage
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
    on_delta: OnDelta,
    on_failure: OnFailure,
) -> Answer:
    """Ask `provider` until an answer is whole, and return it.

    `idle_timeout` is in seconds without any data. `on_delta` gets each piece (attempt, text, is_thinking); `on_failure`
    is awaited after each failed attempt, before the wait for the next one. Raises the last `ModelError`.
    """
    number = 0
    while True:
        number += 1
        attempt = Attempt(reply=clock.new_id(64), number=number, started=clock.monotonic())
        try:
            await _stream(provider, request, attempt, clock, idle_timeout, on_delta)
            return _answer(attempt, clock)
        except ModelError as error:
            await on_failure(attempt, error)
            if error.kind not in _RETRIED or number >= max_attempts:
                raise
            await clock.sleep(_wait_before_next(error, number))


async def _stream(
    provider: ModelProvider,
    request: ModelRequest,
    attempt: Attempt,
    clock: Clock,
    idle_timeout: float,
    on_delta: OnDelta,
) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(idle_timeout) as idle, aclosing(provider.stream(request)) as chunks:
            async for chunk in chunks:
                idle.reschedule(loop.time() + idle_timeout)
                if attempt.first is None and chunk != _KEEP_ALIVE:
                    attempt.first = clock.monotonic()
                _take(attempt, chunk, on_delta)
    except TimeoutError as error:
        raise ModelError(f"the model sent nothing for {idle_timeout:g} seconds", kind="timeout") from error
    except (ModelError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise ModelError(f"provider {provider.name} failed: {error!r}", kind="refused") from error


def _take(attempt: Attempt, chunk: object, on_delta: OnDelta) -> None:
    match chunk:
        case TextDelta(text=""):
            pass
        case TextDelta(text=text):
            on_delta(attempt, text, False)
            attempt.text += text
        case ThinkingDelta(text=text, signature=signature):
            on_delta(attempt, text, True)
            attempt.thinking += text
            attempt.signature = signature or attempt.signature
        case ToolCall():
            attempt.calls.append(chunk)
        case Usage():
            attempt.usage = chunk
        case Stop():
            attempt.stop = chunk
        case _:
            raise ModelError(f"the provider sent {type(chunk).__name__}, which is no chunk", kind="refused")


def _answer(attempt: Attempt, clock: Clock) -> Answer:
    if attempt.stop is None:
        raise ModelError("the stream ended before the answer did", kind="network")
    content: list[Block] = []
    if attempt.thinking:
        content.append(Thinking(attempt.thinking, attempt.signature))
    if attempt.text:
        content.append(Text(attempt.text))
    content += [ToolCall(clock.new_id(64), call.name, call.arguments) for call in attempt.calls]
    if not attempt.text.strip() and not attempt.calls and attempt.stop.reason in ("end", "tools"):
        raise ModelError("the model answered with nothing", kind="empty")
    end = clock.monotonic()
    return Answer(
        reply=attempt.reply,
        attempt=attempt.number,
        content=tuple(content),
        stop=attempt.stop,
        usage=attempt.usage,
        first_ms=round(((attempt.first or end) - attempt.started) * 1000),
        ms=round((end - attempt.started) * 1000),
    )


def _wait_before_next(error: ModelError, number: int) -> float:
    """Return seconds: what the provider asked for, else 2 s (slow kinds) or 1 s doubled each time, with jitter."""
    if error.retry_after is not None:
        return min(error.retry_after, _LONGEST_WAIT)
    base = 2.0 if error.kind in _SLOW else 1.0
    return min(base * float(2 ** (number - 1)), _LONGEST_WAIT) + random.random() * base / 2
