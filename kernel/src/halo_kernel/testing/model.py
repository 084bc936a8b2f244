"""A model that does what a test says: the one stand-in in our tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import ModelError, ModelErrorKind
from ..records import Chunk, ModelRequest, Offer, Stop, Text, TextDelta, ToolCall, Usage


@dataclass(frozen=True)
class Answer:
    """A whole text in one piece."""

    text: str


@dataclass(frozen=True)
class Pieces:
    """A text in pieces, `delay` seconds before each; `cut` ends the stream without a stop.

    The last piece is `held` back until that is set.
    """

    pieces: Sequence[str]
    delay: float = 0.0
    cut: bool = False
    held: asyncio.Event | None = None


@dataclass(frozen=True)
class Calls:
    """Tool calls, each a name and its arguments, after an optional text."""

    calls: Sequence[tuple[str, dict[str, object]]]
    text: str = ""


@dataclass(frozen=True)
class Fail:
    """A failed attempt, after an optional text."""

    kind: ModelErrorKind
    message: str = "scripted failure"
    retry_after: float | None = 0.0
    text: str = ""


@dataclass(frozen=True)
class Hang:
    """A text, then nothing; with `deaf` it ignores its cancel for a while."""

    text: str = ""
    deaf: float = 0.0


Step = Answer | Pieces | Calls | Fail | Hang
Responder = Callable[[ModelRequest], Step]


def echo(request: ModelRequest) -> Step:
    """Answer with the last text of the user."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return Answer(f"echo: {texts[-1]}")


@dataclass
class ScriptedModel:
    """The provider `scripted`: plays `steps` in order, then asks `responder`. `requests` are those it got."""

    steps: Iterable[Step] = ()
    responder: Responder = echo
    name: str = "scripted"
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    active: int = 0

    def __post_init__(self) -> None:
        self._steps = list(self.steps)

    def then(self, *steps: Step) -> None:
        """Add steps to the script."""
        self._steps.extend(steps)

    async def offers(self) -> Sequence[Offer]:
        """Offer one model that is ready."""
        return [Offer(model=f"{self.name}/model", ready=True, reason="scripted for a test", rank=1)]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Play the next step."""
        self.requests.append(request)
        step = self._steps.pop(0) if self._steps else self.responder(request)
        self.active += 1
        try:
            async for chunk in _play(step):
                yield chunk
        finally:
            self.active -= 1

    async def close(self) -> None:
        """Nothing to give back."""


async def _play(step: Step) -> AsyncGenerator[Chunk, None]:
    match step:
        case Answer(text=text):
            yield TextDelta(text)
        case Pieces():
            for number, piece in enumerate(step.pieces, 1):
                await asyncio.sleep(step.delay)
                if step.held is not None and number == len(step.pieces):
                    await step.held.wait()
                yield TextDelta(piece)
            if step.cut:
                return
        case Calls():
            if step.text:
                yield TextDelta(step.text)
            for number, (name, arguments) in enumerate(step.calls):
                yield ToolCall(f"call_{number}", name, arguments)
        case Fail():
            if step.text:
                yield TextDelta(step.text)
            raise ModelError(step.message, kind=step.kind, retry_after=step.retry_after)
        case Hang():
            async for chunk in _hang(step):
                yield chunk
    yield Usage(input=10, output=5)
    yield Stop("tools" if isinstance(step, Calls) else "end")


async def _hang(step: Hang) -> AsyncGenerator[Chunk, None]:
    if step.text:
        yield TextDelta(step.text)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(step.deaf)
        raise
