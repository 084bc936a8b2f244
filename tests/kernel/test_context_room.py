"""Room in a model's context: when a history is to be made shorter, what becomes of a cut, and what does not fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import (
    CLEARED_MARKER,
    OPERATOR,
    AgentSpec,
    Call,
    Chunk,
    Conflict,
    ContextCut,
    ContextPart,
    Event,
    History,
    Incoming,
    InputAdded,
    Kernel,
    ModelError,
    ModelRequest,
    Offer,
    Piece,
    PluginFailed,
    PromptTooLarge,
    Question,
    Role,
    Session,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageRecorded,
    View,
    hook,
    repair_history,
    tokens_of,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    SimplePlugin,
    a_session,
    journal,
    running_kernel,
    until,
)
from halo_kernel.turns.room import fitted

Cut = Callable[[str, Session, ModelRequest, Sequence[Piece]], Awaitable[ContextCut | None]]


class SmallModel(ScriptedModel):
    """A model with a window of some tokens, which counts them as the kernel estimates and refuses more."""

    window = 1000

    async def offers(self) -> Sequence[Offer]:
        return [Offer(model="scripted/model", ready=True, reason="for a test", context_window=self.window)]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        blocks = [block for message in request.messages for block in message.content]
        tokens = tokens_of(request.system, repr(request.tools), *blocks)
        if tokens > self.window:
            self.requests.append(request)
            raise ModelError(f"{tokens} are too many tokens", kind="overflow")
        answer = ""
        async for chunk in super().stream(request):
            answer += chunk.text if isinstance(chunk, TextDelta) else repr(chunk) if isinstance(chunk, ToolCall) else ""
            yield Usage(input=tokens, output=tokens_of(answer)) if isinstance(chunk, Usage) else chunk


class Shrinker:
    """A plugin that cuts as it is told, and notes why it was asked."""

    def __init__(self, cut: Cut | None = None) -> None:
        self.reasons: list[str] = []
        self.cut = cut or everything

    @hook
    async def shrink_context(
        self, reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]
    ) -> ContextCut | None:
        self.reasons.append(reason)
        return await self.cut(reason, session, request, history)


async def everything(reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]) -> ContextCut:
    """All but the last message goes."""
    end = history[-2].seq if len(history) > 1 else history[-1].seq
    return ContextCut(start=1, end=end, replacement="in short", reason=reason, text="shortened")


async def nothing(reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]) -> None:
    return None


class Room:
    """A kernel with a small model, a plugin that makes room, and a session."""

    def __init__(self, kernel: Kernel, session: Session, model: SmallModel, shrinker: Shrinker) -> None:
        self.kernel, self.session, self.model, self.shrinker = kernel, session, model, shrinker

    async def ask(self, text: str) -> str:
        result = await self.session.prompt(Incoming(text=text)).result
        return result.text if result.outcome == "succeeded" else f"{result.outcome} {result.kind}: {result.error}"

    async def cuts(self) -> list[Event]:
        return [event for event in await journal(self.session) if event.kind == "context.cut"]


@asynccontextmanager
async def room(
    folder: Path, cut: Cut | None = None, *, agent: AgentSpec | None = None, more: dict[str, object] | None = None
) -> AsyncGenerator[Room, None]:
    model, shrinker = SmallModel(), Shrinker(cut)
    plain = SimplePlugin(model, [NoteTool()], agent or AgentSpec(id="default", name="Default"))
    extra = {"test": plain, "shrinker": shrinker, **(more or {})}
    async with running_kernel(folder / "home", extra=extra) as kernel:
        yield Room(kernel, await a_session(kernel, folder / "w"), model, shrinker)


def said(request: ModelRequest) -> list[str]:
    return [block.text for message in request.messages for block in message.content if isinstance(block, Text)]


# When


async def test_a_long_history_is_cut_before_the_next_call(tmp_path: Path) -> None:
    """Past its part of the context, a conversation is made shorter before the model is asked, and the turn goes on."""

    async def late(reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]) -> ContextCut | None:
        return None if reason == "turn_end" else await everything(reason, session, request, history)

    async with room(tmp_path, late, agent=AgentSpec(id="default", name="D", compress_at=0.5)) as it:
        it.model.then(Answer("a" * 1200), Answer("b"))
        await it.ask("x" * 400)
        assert await it.ask("and now?") == "b"
        assert it.shrinker.reasons == ["turn_end", "threshold"]
        assert said(it.model.requests[-1]) == ["in short", "and now?"]
        (cut,) = await it.cuts()
        assert cut.turn == "" and isinstance(cut.body, ContextCut) and cut.body.reason == "threshold"


async def test_a_short_history_is_left_alone(tmp_path: Path) -> None:
    """Nobody is asked to make room while there is enough."""
    async with room(tmp_path) as it:
        for text in ("one", "two"):
            await it.ask(text)
        assert it.shrinker.reasons == []


@pytest.mark.parametrize(
    ("spec", "env", "asked"),
    [
        ({}, {}, False),
        ({"compress_at": 0.2}, {}, True),
        ({"context_tokens": 300}, {}, True),
        ({}, {"HALO_AGENT_COMPRESS_AT": "0.2"}, True),
        ({"compress_at": 0.9}, {"HALO_AGENT_COMPRESS_AT": "0.2"}, False),
    ],
)
async def test_an_agent_says_how_much_there_may_be(
    tmp_path: Path, spec: dict[str, Any], env: dict[str, str], asked: bool
) -> None:
    """`context_tokens` and `compress_at` of an agent go before its model's window and the setting."""
    shrinker, agent = Shrinker(nothing), AgentSpec(id="default", name="D", **spec)
    extra = {"test": SimplePlugin(SmallModel(), (), agent), "shrinker": shrinker}
    async with running_kernel(tmp_path / "home", extra=extra, env=env) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="x" * 1000)).result
        assert (shrinker.reasons[:1] == ["threshold"]) is asked


async def test_what_the_provider_counted_goes_before_the_estimate(tmp_path: Path) -> None:
    """A call's own figures, with an estimate of what came since, tell how long a history is; a cut forgets them."""
    history = History()
    for seq, body in enumerate(
        [
            InputAdded(row=1, key="k", text="", content="x" * 350, sender="o", stamp=""),
            Usage(input=9000, output=10),
            InputAdded(row=2, key="l", text="", content="y" * 340, sender="o", stamp=""),
        ],
        1,
    ):
        _apply(history, seq, body)
    assert 9100 <= history.size(50) <= 9120
    _apply(history, 4, ContextCut(start=1, end=1, replacement="z", reason=""))
    assert 155 <= history.size(50) <= 170


def _apply(history: History, seq: int, body: Any) -> None:
    if isinstance(body, Usage):
        body = UsageRecorded(reply="r", model="m", input=body.input, output=body.output)
    history.apply(Event(session="s", seq=seq, at=0, turn="t", body=body))


async def test_room_is_made_at_the_end_of_a_turn(tmp_path: Path) -> None:
    """A history that a turn has made too long is cut after the answer is given, before the next message."""
    async with room(tmp_path) as it:
        it.model.then(Answer("a" * 3400))
        assert len(await it.ask("go on")) == 3400
        await until(lambda: it.session.info.state == "idle")
        assert it.shrinker.reasons == ["turn_end"]
        (cut,) = await it.cuts()
        events = await journal(it.session)
        assert events[cut.seq - 2].kind == "turn.ended"
        view = View()
        for event in events:
            view.apply(event)
        assert view.running == ""
        assert [item.text for item in view.items.values() if item.kind == "notice"] == ["shortened\n\nin short"]


async def test_a_report_does_not_wait_for_room_at_the_end(tmp_path: Path) -> None:
    """What a sub-session reports wakes its parent before its own history is made shorter, and so does its handle."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]) -> ContextCut | None:
        if session.info.parent is None:
            return None
        begun.set()
        await go.wait()
        return await everything(reason, session, request, history)

    async with room(tmp_path, slow) as it:
        child = await it.session.start_child("default")
        it.model.then(Answer("a" * 3300))
        assert (await child.prompt(Incoming(text="go on")).result).outcome == "succeeded"
        await begun.wait()
        heard: list[Any] = []
        async with asyncio.timeout(5):
            while not heard:
                heard = [event.body for event in await journal(it.session) if event.kind == "input.added"]
                await asyncio.sleep(0.01)
        assert "aaa" in heard[0].text
        assert child.info.state == "running"
        go.set()
        await until(lambda: child.info.state == "idle")
        assert [event.kind for event in await journal(child)].count("context.cut") == 1


async def test_an_overflow_is_shrunk_once_and_tried_again(tmp_path: Path) -> None:
    """34 What a provider refuses as too long is made shorter and asked again; the turn succeeds."""
    async with room(tmp_path) as it:
        it.model.then(Fail("overflow"), Answer("done"))
        assert await it.ask("one") == "done"
        assert it.shrinker.reasons == ["overflow"]
        assert [event.kind for event in await journal(it.session)].count("assistant.discarded") == 1


@pytest.mark.parametrize("cut", [nothing, everything])
async def test_an_overflow_that_stays_ends_the_turn(tmp_path: Path, cut: Cut) -> None:
    """If nothing can go, or that was not enough, the turn fails with the provider's overflow: no endless trying."""
    async with room(tmp_path, cut) as it:
        it.model.responder = lambda _: Fail("overflow", "too long")
        assert (await it.ask("one")).startswith("failed overflow: too long")
        assert len(it.model.requests) == (2 if cut is everything else 1)


@pytest.mark.parametrize("failure", [ModelError("no", kind="server"), RuntimeError("broken")])
async def test_a_plugin_that_fails_at_it_costs_no_turn(tmp_path: Path, failure: Exception) -> None:
    """The model is asked with the history as it is; only who asked for room hears of the failure."""

    async def fail(*_: object) -> None:
        raise failure

    async with room(tmp_path, fail, agent=AgentSpec(id="default", name="D", compress_at=0.01)) as it:
        assert await it.ask("one") == "echo: one"
        await until(lambda: it.session.info.state == "idle")
        with pytest.raises((ModelError, PluginFailed)):
            await it.session.compact()
        assert await it.cuts() == []
        assert await it.ask("two") == "echo: two"


# What does not fit


class Prompt:
    """A plugin with a long prompt."""

    @hook
    async def prepare_context(self) -> Sequence[ContextPart]:
        parts = [("agent", "AGENT.md", "long " * 900), ("knowledge", "INDEX.md", "short")]
        return [ContextPart(slot=slot, source=source, text=text) for slot, source, text in parts]  # type: ignore[arg-type]


async def test_a_prompt_that_does_not_fit_asks_no_model(tmp_path: Path) -> None:
    """A turn whose fixed prompt alone is too long ends before any call, with what takes most of it."""
    async with room(tmp_path, more={"prompt": Prompt()}) as it:
        ended = await it.ask("one")
        assert ended.startswith("failed PromptTooLarge: prompt and tools take about 13")
        assert "agent AGENT.md (12" in ended and "tools note (" in ended
        assert ended.index("AGENT.md") < ended.index("note (")
        assert it.model.requests == [] and it.shrinker.reasons == []
        with pytest.raises(PromptTooLarge) as raised:
            await it.session.compact()
        slot, source, tokens = raised.value.contributors[0]
        assert (slot, source) == ("agent", "AGENT.md") and tokens > 1200


# On request


async def test_a_conversation_is_shortened_on_request(tmp_path: Path) -> None:
    """`compact` cuts now, says whether it did, and leaves the session at rest."""
    async with room(tmp_path) as it:
        for text in ("one", "two"):
            await it.ask(text)
        assert await it.session.compact()
        assert it.shrinker.reasons == ["manual"]
        await until(lambda: it.session.info.state == "idle")
        assert await it.ask("three") == "echo: three"
        assert said(it.model.requests[-1]) == ["in short", "echo: two", "three"]
        it.shrinker.cut = nothing
        assert not await it.session.compact()


async def test_a_running_session_is_not_shortened_on_request(tmp_path: Path) -> None:
    """`compact` during a turn is refused, and changes nothing."""
    async with room(tmp_path) as it:
        it.model.then(Hang())
        prompt = it.session.prompt(Incoming(text="one"))
        await until(lambda: it.model.active)
        with pytest.raises(Conflict, match="is running"):
            await it.session.compact()
        prompt.cancel()
        await prompt.result
        assert it.shrinker.reasons == []


class Asks(NoteTool):
    """A tool that asks a person first."""

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Sure?"))
        return await super().run(call)


async def test_a_session_that_waits_for_an_answer_is_not_shortened_on_request(tmp_path: Path) -> None:
    """While a question is open its call has no result yet, so nothing is cut; the answer finds all as it was."""
    model, shrinker = SmallModel([Calls([("note", {"text": "x"})]), Answer("done")]), Shrinker()
    extra = {"test": SimplePlugin(model, [Asks()]), "shrinker": shrinker}
    async with running_kernel(tmp_path / "home", extra=extra) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        prompt = session.prompt(Incoming(text="one"))
        await until(lambda: session.info.state == "waiting")
        with pytest.raises(Conflict, match="is waiting"):
            await session.compact()
        workspace = session.info.workspace
        (asked,) = await kernel.host.questions.list(workspace=workspace, principal=OPERATOR)
        await kernel.host.questions.answer(asked.id, workspace=workspace, principal=OPERATOR, approved=True)
        assert (await prompt.result).text == "done"
        assert shrinker.reasons == []


class Slow:
    """Waits until it is let go, then cuts."""

    def __init__(self) -> None:
        self.begun, self.go, self.cancelled = asyncio.Event(), asyncio.Event(), False

    async def __call__(
        self, reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]
    ) -> ContextCut:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return await everything(reason, session, request, history)


async def test_a_message_that_comes_meanwhile_is_answered_after_it_once(tmp_path: Path) -> None:
    """40 What arrives during a compaction waits, survives the cut, and is answered when that ends, by itself."""
    slow = Slow()
    async with room(tmp_path, slow) as it:
        await it.ask("one")
        compacting = asyncio.ensure_future(it.session.compact())
        await slow.begun.wait()
        assert it.session.info.state == "running"
        prompts = [it.session.prompt(Incoming(text=text)) for text in ("two", "three")]
        for prompt in prompts:
            await prompt.accepted
        await it.session.append("note.made", {"text": "meanwhile"})
        with pytest.raises(Conflict):
            await it.session.compact()
        slow.go.set()
        assert await compacting
        results = [await asyncio.wait_for(prompt.result, 5) for prompt in prompts]
        assert {result.text for result in results} == {"echo: three"}
        assert said(it.model.requests[-1]) == ["in short", "echo: one", "two", "three"]
        kinds = [event.kind for event in await journal(it.session)]
        assert kinds.index("note.made") < kinds.index("context.cut") < len(kinds) - kinds[::-1].index("input.added") - 1
        assert kinds.count("input.added") == 3


@pytest.mark.parametrize("how", ["interrupt", "interrupt_hard", "stop", "close"])
async def test_a_compaction_can_be_stopped(tmp_path: Path, how: str) -> None:
    """An interrupt, an urgent message, a stop and a close end a compaction; the history is as it was."""
    slow = Slow()
    async with room(tmp_path, slow) as it:
        await it.ask("one")
        compacting = asyncio.ensure_future(it.session.compact())
        await slow.begun.wait()
        if how == "interrupt":
            assert it.session.interrupt()
        elif how == "interrupt_hard":
            assert (await it.session.prompt(Incoming(text="two", mode="interrupt_hard")).result).text == "echo: two"
        elif how == "stop":
            await it.session.stop()
        else:
            await it.session.close()  # type: ignore[attr-defined]
        assert not await asyncio.wait_for(compacting, 5)
        assert slow.cancelled
        assert await it.cuts() == []


async def test_an_interrupt_during_room_for_a_turn_ends_the_turn(tmp_path: Path) -> None:
    """A compaction inside a turn is stopped with the turn."""
    slow = Slow()
    async with room(tmp_path, slow, agent=AgentSpec(id="default", name="D", compress_at=0.01)) as it:
        prompt = it.session.prompt(Incoming(text="one"))
        await slow.begun.wait()
        it.session.interrupt()
        assert (await prompt.result).outcome == "cancelled"
        assert it.model.requests == [] and await it.cuts() == []


async def test_room_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    """Between two calls of one turn results stay with their calls, and the turn goes on to its answer."""
    async with room(tmp_path, agent=AgentSpec(id="default", name="D", compress_at=0.3)) as it:
        it.model.then(Calls([("note", {"text": "n" * 900})]), Answer("done"))
        assert await it.ask("one") == "done"
        assert it.shrinker.reasons[0] == "threshold"
        messages = it.model.requests[-1].messages
        assert repair_history(messages) == messages
        assert said(it.model.requests[-1]) == ["in short"]
        assert [type(block) for message in messages[1:] for block in message.content] == [ToolCall, ToolResult]


async def test_a_cut_of_what_was_cut_meanwhile_does_not_count(tmp_path: Path) -> None:
    """A cut is compared with the journal: when the past has changed since, it is dropped."""

    async def twice(reason: str, session: Session, request: ModelRequest, history: Sequence[Piece]) -> ContextCut:
        other = ContextCut(start=1, end=history[0].seq, replacement="the other", reason="r")
        await session.write([other])  # type: ignore[attr-defined]
        return await everything(reason, session, request, history)

    async with room(tmp_path, twice) as it:
        await it.ask("one")
        assert not await it.session.compact()
        (cut,) = await it.cuts()
        assert isinstance(cut.body, ContextCut) and cut.body.replacement == "the other"


async def test_a_partial_answer_does_not_disturb_a_later_cut(tmp_path: Path) -> None:
    """A turn that was cut in the middle of an answer can be shortened like any other."""
    async with room(tmp_path) as it:
        it.model.then(Pieces(["half"], cut=True), Answer("whole"))
        await it.ask("one")
        assert await it.session.compact()
        assert await it.ask("two") == "echo: two"


# What a cut may be


ROLES: tuple[Role, ...] = ("user", "assistant")
numbers = st.integers(1, 30)
calls = st.lists(st.sampled_from("abcdef"), unique=True, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> list[Piece]:
    """Pieces as turns make them: texts, answers with calls, their results one by one; some damaged, the last open."""
    pieces: list[Piece] = []

    def add(assistant: bool, *blocks: Any) -> None:
        seq = (pieces[-1].seq if pieces else 0) + draw(st.integers(1, 3))
        pieces.append(Piece(seq, ROLES[assistant], blocks, seq, seq))

    for used in range(draw(st.integers(0, 6))):
        add(False, Text("hello"))
        names = [f"{used}{name}" for name in draw(calls)]
        add(True, Text("well"), *(ToolCall(name, "grep", {}) for name in names))
        for name in names:
            if draw(st.integers(0, 9)):
                add(False, ToolResult(name, "found"))
            if not draw(st.integers(0, 9)):
                add(False, Text("meanwhile"))
    return pieces


def folded_with(pieces: Sequence[Piece], cut: ContextCut, seq: int) -> History:
    history = History(pieces=list(pieces))
    history.apply(Event(session="s", seq=seq, at=0, turn="", body=cut))
    return history


@given(histories(), st.integers(-3, 40), st.integers(-3, 40), st.lists(numbers, max_size=4), st.integers(0, 40))
def test_any_cut_leaves_a_whole_history(
    pieces: list[Piece], start: int, end: int, cleared: list[int], head: int
) -> None:
    """Whatever a plugin wishes to cut: calls keep their results, and nothing behind the cut or `head` is lost."""
    wish = ContextCut(start=start, end=end, replacement="in short", reason="r", cleared=tuple(cleared))
    cut = fitted(wish, pieces, head)
    if cut is None:
        return
    assert fitted(cut, pieces, head) == cut
    after = folded_with(pieces, cut, 100)
    gone = [piece for piece in pieces if cut.start <= piece.seq <= cut.end]
    left = [piece for piece in pieces if piece not in gone]
    assert all(start <= piece.seq <= min(end, head) for piece in gone)
    assert [piece.seq for piece in after.pieces if piece.content != (Text("in short"),)] == [p.seq for p in left]
    gone_calls, left_calls = (
        {block.id for piece in part for block in piece.content if isinstance(block, ToolCall)} for part in (gone, left)
    )
    assert not gone_calls & results(left) and not left_calls & results(gone)
    repaired = repair_history(after.pieces)
    assert repair_history(repaired) == repaired
    for piece in after.pieces:
        if piece.seq in cut.cleared:
            assert [block.text for block in piece.content if isinstance(block, ToolResult)] == [CLEARED_MARKER]


def results(pieces: Sequence[Piece]) -> set[str]:
    return {block.call for piece in pieces for block in piece.content if isinstance(block, ToolResult)}


def test_a_call_without_its_result_yet_stays() -> None:
    """The calls of the last answer are not cut while their results are still to come; those of earlier ones are."""
    lost = Piece(1, "assistant", (ToolCall("lost", "grep", {}),), 1, 1)
    late = Piece(3, "assistant", (ToolCall("late", "grep", {}),), 3, 3)
    wish = ContextCut(start=1, end=9, replacement="", reason="r")
    cut = fitted(wish, [lost, late], 9)
    assert cut is not None and (cut.start, cut.end) == (1, 2)
    assert fitted(wish, [late], 9) is None
