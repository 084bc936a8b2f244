"""Providers that keep no rule: a turn over one ends in an answer or a typed error, and the session goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import pytest

from halo_kernel import (
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Chunk,
    History,
    Incoming,
    ModelRequest,
    Offer,
    Session,
    Stop,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    TurnResult,
    Usage,
    UsageRecorded,
    View,
)
from halo_kernel.testing import NoteTool, ScriptedModel, VirtualClock, a_session, journal, running_kernel, until

Stream = Callable[[], AsyncGenerator[Chunk, None]]


class Odd(ScriptedModel):
    """Plays `streams` in order, then answers properly."""

    def __init__(self, *streams: Stream) -> None:
        super().__init__()
        self.streams = list(streams)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        if not self.streams:
            async for chunk in super().stream(request):
                yield chunk
            return
        self.requests.append(request)
        async for chunk in self.streams.pop(0)():
            yield chunk


def chunks(*items: object) -> Stream:
    async def play() -> AsyncGenerator[Chunk, None]:
        for item in items:
            if isinstance(item, BaseException):
                raise item
            yield item  # type: ignore[misc]

    return play


async def ask(session: Session, text: str = "go") -> TurnResult:
    return await asyncio.wait_for(session.prompt(Incoming(text=text)).result, 20)


async def goes_on(session: Session) -> None:
    """Check that the session answers, and that what it remembers is what its journal says."""
    assert (await ask(session, "and now?")).text == "echo: and now?"
    history, view = History(), View()
    for event in await journal(session):
        history.apply(event)
        view.apply(event)
    assert session._desk.history == history  # type: ignore[attr-defined]
    assert not view.running


class Odder(BaseException):
    """Neither an Exception nor one that asyncio knows."""


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), Odder("x"), ValueError()]
)
async def test_whatever_a_provider_raises_is_a_failed_call(tmp_path: Path, error: BaseException) -> None:
    """A provider that raises anything at all fails its call, neither the server nor the session."""
    model = Odd(*[chunks(TextDelta("half"), error)] * 5)
    async with running_kernel(tmp_path / "home", model=model, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await ask(session)
        assert (result.outcome, result.kind) in {("failed", "refused"), ("failed", "network")}
        model.streams.clear()
        await goes_on(session)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), ValueError("no")])
async def test_whatever_offers_raise_the_others_offer(tmp_path: Path, error: BaseException) -> None:
    """A provider that fails to say what it offers is not ready; the turn ends with a typed error."""

    class Mute(ScriptedModel):
        async def offers(self) -> Sequence[Offer]:
            raise error

    async with running_kernel(tmp_path / "home", model=Mute()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await ask(session)
        assert (result.outcome, result.kind) == ("failed", "none")
        offers, chosen, _ = await kernel.models()
        assert chosen is None and [offer.ready for offer in offers] == [False]


@pytest.mark.parametrize("answer", [None, [None], "scripted/model"])
async def test_offers_that_are_none_are_not_taken(tmp_path: Path, answer: object) -> None:
    """A provider that answers with anything but offers has none that is ready."""

    class Wrong(ScriptedModel):
        async def offers(self) -> Sequence[Offer]:
            return answer  # type: ignore[return-value]

    async with running_kernel(tmp_path / "home", model=Wrong()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).kind == "none"


async def test_what_comes_after_the_stop_is_not_part_of_the_answer(tmp_path: Path) -> None:
    """An answer ends with its stop: later chunks do not count."""
    model = Odd(chunks(TextDelta("all"), Stop("end"), TextDelta(" and more"), ToolCall("1", "note", {}), Stop("tools")))
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).text == "all"
        await goes_on(session)


async def test_a_stream_that_stays_open_after_its_stop_holds_nobody_up(tmp_path: Path) -> None:
    """A whole answer is an answer, though its connection never ends and its closing hangs."""

    async def lingering() -> AsyncGenerator[Chunk, None]:
        try:
            yield TextDelta("whole")
            yield Stop("end")
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(3600)

    model = Odd(lingering)
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("halo_kernel.models.call.CLOSE_SECONDS", 0.1)
            started = asyncio.get_running_loop().time()
            assert (await ask(session)).text == "whole"
            assert asyncio.get_running_loop().time() - started < 3
        await goes_on(session)


async def test_a_stream_may_end_by_itself_after_its_stop(tmp_path: Path) -> None:
    """A provider goes on behind its stop, to the end of its connection's answer; a kernel that closes waits for it."""
    heard: list[str] = []

    async def with_a_tail() -> AsyncGenerator[Chunk, None]:
        yield TextDelta("whole")
        yield Stop("end")
        await asyncio.sleep(0.1)
        heard.append("the end")

    async with running_kernel(tmp_path / "home", model=Odd(with_a_tail)) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).text == "whole"
        assert heard == []
    assert heard == ["the end"]


async def test_providers_are_not_asked_again_for_every_turn(tmp_path: Path) -> None:
    """What a provider offers is asked once for turns that follow one another."""

    class Counted(ScriptedModel):
        asked = 0

        async def offers(self) -> Sequence[Offer]:
            self.asked += 1
            return await super().offers()

    model = Counted()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for _ in range(5):
            await ask(session)
    assert model.asked == 1


async def test_one_turn_asks_providers_again_and_the_others_do_not_wait(tmp_path: Path) -> None:
    """While a provider takes its time to say what it offers now, what it said last holds for everybody else."""
    free = asyncio.Event()

    class Slow(ScriptedModel):
        asked = 0

        async def offers(self) -> Sequence[Offer]:
            self.asked += 1
            if self.asked > 1:
                await free.wait()
            return await super().offers()

    model = Slow()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        sessions = [await a_session(kernel, tmp_path / "w") for _ in range(5)]
        await ask(sessions[0])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("halo_kernel.models.registry._FRESH_SECONDS", 0.0)
            asking = asyncio.create_task(ask(sessions[0]))
            await until(lambda: model.asked == 2)
        assert [(await ask(session)).outcome for session in sessions[1:]] == ["succeeded"] * 4
        assert model.asked == 2 and not asking.done()
        free.set()
        assert (await asking).outcome == "succeeded"


async def test_a_deaf_provider_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is silent and ignores its cancel is a timeout, and what it says later is nobody's answer."""
    monkeypatch.setattr("halo_kernel.models.call.CLOSE_SECONDS", 0.1)
    free = asyncio.Event()

    async def deaf() -> AsyncGenerator[Chunk, None]:
        yield TextDelta("so far")
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        yield TextDelta(" too late")
        yield Stop("end")

    model = Odd(deaf)
    env = {"HALO_MODEL_IDLE_TIMEOUT": "0.2"}
    async with running_kernel(tmp_path / "home", model=model, env=env, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).text == "echo: go"
        free.set()
        await asyncio.sleep(0.05)
        bodies = [event.body for event in await journal(session)]
        assert [body.text for body in bodies if isinstance(body, AssistantDiscarded)] == ["so far"]
        assert session.seat.feed._partials.get(session.info.id) is None  # type: ignore[attr-defined]
        await goes_on(session)


ODD_TEXTS = ["nul \0 inside", "lone \ud800 surrogate", "\udc00", "pair \ud83d\ude00 in two"]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=["nul", "high", "low", "pair"])
async def test_text_that_no_storage_keeps_does_not_brick_a_session(tmp_path: Path, text: str) -> None:
    """U+0000 and surrogates from a model, in any place, become U+FFFD; pairs become the character they mean."""
    call = ToolCall(text, text, {text: [text, {"deep": text}]})
    good = ToolCall("2", "note", {"text": text})
    model = Odd(chunks(ThinkingDelta(text, text), TextDelta(text), call, good, Stop("tools", text)))
    note = NoteTool()
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await ask(session)
        assert result.outcome == "succeeded"
        message = next(e.body for e in await journal(session) if isinstance(e.body, AssistantMessage))
        (thinking,) = [block.text for block in message.content if isinstance(block, Thinking)]
        assert thinking == text.replace("\0", "\ufffd").replace("\ud83d\ude00", "\U0001f600").replace(
            "\ud800", "\ufffd"
        ).replace("\udc00", "\ufffd")
        assert note.seen == [thinking]
        await goes_on(session)


@pytest.mark.parametrize("text", ODD_TEXTS, ids=["nul", "high", "low", "pair"])
async def test_errors_that_no_storage_keeps_do_not_brick_a_session(tmp_path: Path, text: str) -> None:
    """The same in errors of providers, in what a refused call said, and in results of tools."""

    class Loud(NoteTool):
        async def run(self, call: object) -> str:
            if call.arguments.get("fail"):  # type: ignore[attr-defined]
                raise ValueError(text)
            return text

    calls = [ToolCall("1", "note", {}), ToolCall("2", "note", {"fail": True})]
    model = Odd(
        chunks(TextDelta(text), ValueError(text)),
        chunks(TextDelta(text), Stop("refusal", text)),
        chunks(TextDelta(text), *calls, Stop("tools")),
    )
    async with running_kernel(tmp_path / "home", model=model, tools=[Loud()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert [(await ask(session)).outcome for _ in range(3)] == ["failed", "failed", "succeeded"]
        await goes_on(session)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**30, -(10**30), 1e308])
async def test_a_tool_gets_the_numbers_that_the_journal_holds(tmp_path: Path, number: float) -> None:
    """What JSON cannot say is null in the journal, for the tool, and for the model later: one truth."""
    model = Odd(chunks(ToolCall("1", "note", {"text": number}), Stop("tools")))
    note = NoteTool()
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).outcome == "succeeded"
        message = next(e.body for e in await journal(session) if isinstance(e.body, AssistantMessage))
        (call,) = [block for block in message.content if isinstance(block, ToolCall)]
        assert note.seen == [call.arguments["text"]] == [number if abs(number) < float("inf") else None]
        await goes_on(session)


def deep() -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(100_000):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "wrong",
    [
        TextDelta(None),  # type: ignore[arg-type]
        ThinkingDelta(3),  # type: ignore[arg-type]
        ToolCall("1", None, {}),  # type: ignore[arg-type]
        ToolCall("1", "note", [1]),  # type: ignore[arg-type]
        ToolCall("1", "note", {"a": object()}),
        ToolCall("1", "note", {"a": 10**5000}),
        ToolCall("1", "note", deep()),
        Usage(input=None),  # type: ignore[arg-type]
        Stop("bored"),  # type: ignore[arg-type]
        "text",
        None,
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_chunk_of_the_wrong_shape_fails_the_call(tmp_path: Path, wrong: object) -> None:
    """A chunk that is not what its type says ends the turn with an error; nothing of it is kept."""
    model = Odd(chunks(wrong, Stop("tools")))
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await ask(session)
        assert result.outcome == "failed" and result.kind in ("refused", "internal")
        await goes_on(session)


async def test_what_a_refused_answer_said_is_discarded_and_none_of_its_calls_run(tmp_path: Path) -> None:
    """A refusal ends the turn: its text is discarded, its calls do not run, its tokens are counted."""
    refusal = chunks(
        TextDelta("I would"), ToolCall("1", "note", {"text": "x"}), Usage(input=7), Stop("refusal", "rule 1")
    )
    note = NoteTool()
    async with running_kernel(tmp_path / "home", model=Odd(refusal), tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await ask(session)
        assert (result.outcome, result.kind, result.text) == ("failed", "refused", "") and "rule 1" in result.error
        bodies = [event.body for event in await journal(session)]
        assert [body.text for body in bodies if isinstance(body, AssistantDiscarded)] == ["I would"]
        assert [body.input for body in bodies if isinstance(body, UsageRecorded)] == [7]
        assert note.seen == [] and not any(isinstance(body, AssistantCut) for body in bodies)
        await goes_on(session)


async def test_thinking_alone_is_no_answer(tmp_path: Path) -> None:
    """A model that only thought is asked again."""
    model = Odd(chunks(ThinkingDelta("hmm"), Stop("end")))
    async with running_kernel(tmp_path / "home", model=model, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).text == "echo: go"
        reasons = [e.body.reason for e in await journal(session) if isinstance(e.body, AssistantDiscarded)]
        assert reasons == ["empty"]


async def test_thinking_up_to_the_limit_is_an_error_that_says_so(tmp_path: Path) -> None:
    """A model that used its whole answer up for thinking is not asked the same again; the turn says what to do."""
    model = Odd(chunks(ThinkingDelta("hmm"), Stop("length")))
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await ask(session)
        assert (result.outcome, result.kind) == ("failed", "refused") and "longer answers" in result.error
        assert len(model.requests) == 1
        await goes_on(session)


async def test_ten_thousand_calls_in_one_answer(tmp_path: Path) -> None:
    """However many calls an answer has, each gets its result in order, and the turn goes on."""
    many = [ToolCall(f"{i}", "nope", {"n": i}) for i in range(9_900)]
    some = [ToolCall(f"x{i}", "note", {"text": i}) for i in range(100)]
    note = NoteTool()
    async with running_kernel(
        tmp_path / "home", model=Odd(chunks(*many, *some, Stop("tools"))), tools=[note]
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await ask(session)).outcome == "succeeded"
        results = [e.body for e in await journal(session) if isinstance(e.body, ToolFinished)]
        assert len(results) == 10_000 and note.seen == list(range(100))
