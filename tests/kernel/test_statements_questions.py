"""Questions under random schedules: restarts, failing writes and messages between asking and answering."""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Call,
    Conflict,
    Denial,
    Event,
    Forbidden,
    Incoming,
    InputAdded,
    Kernel,
    Mode,
    NotFound,
    Place,
    Principal,
    Question,
    QuestionInfo,
    Session,
    StorageUnavailable,
    ToolFinished,
    ToolSpec,
    hook,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    FaultyStorage,
    ScriptedModel,
    Step,
    a_session,
    journal,
    running_kernel,
    until,
)

SEEDS = st.integers(0, 1 << 30)
CALLS = ["note", "ask", "guarded", "both"]
"""What a call does: nothing more, ask itself, have a guard ask about it, or both."""


class Acting:
    """A tool that may ask before its effect, and counts how often each call has had it."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name=name, description="Act.", parameters={"type": "object"}, effect="write")
        self.effects: list[str] = []

    async def run(self, call: Call) -> str:
        if self.spec.name in ("ask", "both") and call.answer is None:
            call.ask(Question(text=f"{call.arguments['text']}: do it?", expires_in=3600))
        self.effects.append(str(call.arguments["text"]))
        return f"did {call.arguments['text']}" if call.answer is None else f"told {call.answer.text}"


class Guard:
    """A plugin that asks about some calls."""

    @hook
    async def authorize_tool(self, call: Call) -> Denial | Question | None:
        asks = call.tool.name in ("guarded", "both")
        return Question(text=f"{call.arguments['text']}: may it?", expires_in=3600) if asks else None


def a_script(rnd: random.Random) -> list[Step]:
    """Return a few batches of calls, each with a text of its own, and the answer behind them."""
    steps: list[Step] = []
    for batch in range(rnd.randint(1, 2)):
        kinds = [rnd.choice(CALLS) for _ in range(rnd.randint(1, 4))]
        steps.append(Calls([(kind, {"text": f"{batch}.{at}"}) for at, kind in enumerate(kinds)]))
    return [*steps, Answer("done")]


def scheduled(scenario: Callable[[random.Random, Path], Awaitable[None]], seed: int) -> None:
    """Run a scenario in a folder of its own."""

    async def run(folder: str) -> None:
        await scenario(random.Random(seed), Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


async def open_questions(kernel: Kernel, session: Session) -> list[QuestionInfo]:
    return list(await kernel.host.questions.list(workspace=session.info.workspace, principal=OPERATOR))


async def answered(kernel: Kernel, session: Session, question: QuestionInfo, **how: Any) -> None:
    """Say yes to all questions but those whose text has a 2 in it, unless told otherwise."""
    wanted = {"approved": "2" not in question.text, "text": f"re {question.text}", "principal": OPERATOR, **how}
    await kernel.host.questions.answer(question.id, workspace=session.info.workspace, **wanted)


async def resting(session: Session) -> None:
    await until(lambda: session.info.state in ("waiting", "idle"), 10)


class Played:
    """A script played to its end, with the questions that were answered, and the effects that there were."""

    def __init__(self, script: list[Step], home: Path) -> None:
        self.script = script
        self.home = home
        self.tools = [Acting(name) for name in CALLS]
        self.asked: list[str] = []
        self.events: list[Event] = []

    @property
    def effects(self) -> list[str]:
        return [text for tool in self.tools for text in tool.effects]

    async def play(self, stop: Callable[[], bool]) -> None:
        """Answer each question; whenever `stop` says so, start the kernel anew before, and another after."""
        model, name, workspace = ScriptedModel(self.script), "", ""
        while True:
            async with running_kernel(
                self.home / "home", model=model, tools=self.tools, extra={"guard": Guard()}
            ) as kernel:
                if not name:
                    session = await a_session(kernel, self.home / "w")
                    name, workspace = session.info.id, session.info.workspace
                    await session.submit(Incoming(text="go"))
                session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
                while True:
                    await resting(session)
                    pending = await open_questions(kernel, session)
                    assert len(pending) == (session.info.state == "waiting")
                    if not pending:
                        self.events = await journal(session)
                        return
                    if stop():
                        break
                    self.asked.append(pending[0].text)
                    await answered(kernel, session, pending[0])


def plain(events: list[Event]) -> list[tuple[str, str]]:
    """Return what events say but for times, and with ids by the order in which they come."""
    names: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"<{len(names)}>")

    found = []
    for event in events:
        body = msgspec.to_builtins(event.body)
        for each in ("stamp", "ms", "first_ms", "expires_at", "session"):
            body.pop(each, None)
        text = re.sub(r"\b([0-9a-f]{32}|[0-9a-f]{16})\b", named, f"{event.turn} {sorted(body.items())}")
        found.append((event.kind, text))
    return found


async def killed(rnd: random.Random, home: Path) -> None:
    script = a_script(rnd)
    never, often = Played(script, home / "never"), Played(script, home / "often")
    for played in (never, often):
        played.home.mkdir()
    await never.play(lambda: False)
    await often.play(lambda: rnd.random() < 0.4)
    assert plain(often.events) == plain(never.events)
    assert (often.asked, often.effects) == (never.asked, never.effects)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_pause_outlives_every_restart(seed: int) -> None:
    """S42: whenever processes end while a question is open, the journal is that of one process, but ids and times."""
    scheduled(killed, seed)


async def partly(rnd: random.Random, home: Path) -> None:
    played = Played(a_script(rnd), home)
    seen: list[list[str]] = []

    def stop() -> bool:
        seen.append(list(played.effects))
        return rnd.random() < 0.3

    await played.play(stop)
    assert len(played.asked) == len(set(played.asked)), "what was answered is not asked again"
    assert len(played.effects) == len(set(played.effects)), "no call has its effect twice"
    finished = [event.body for event in played.events if isinstance(event.body, ToolFinished)]
    assert len(finished) == sum(len(step.calls) for step in played.script if isinstance(step, Calls))
    for before, after in pairwise(seen):
        assert sorted(before) == sorted(each for each in after if each in before), "what was done stays done"
    refused = [question for question in played.asked if "2" in question and "may it" in question]
    assert all(question.partition(":")[0] not in played.effects for question in refused)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_batch_is_answered_call_by_call(seed: int) -> None:
    """S43: one question of a batch is open at a time; what was answered is not asked again, what ran not run again."""
    scheduled(partly, seed)


async def test_what_is_no_answer_changes_nothing(tmp_path: Path) -> None:
    """S44: an unknown question, a stranger, too low a level and a second answer are refused; all stays as it was."""
    tool = Acting("ask")
    model = ScriptedModel([Calls([("ask", {"text": "one"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await until(lambda: session.info.state == "waiting")
        (question,) = await open_questions(kernel, session)
        before = await journal(session)
        wrong: list[tuple[int, Principal, type[Exception]]] = [
            (question.id + 1, OPERATOR, NotFound),
            (question.id, Principal(name="stranger"), NotFound),
            (question.id, Principal(name="operator", kind="remote"), NotFound),
            (question.id, Principal(name="operator", access="readonly"), Forbidden),
        ]
        for number, who, error in wrong:
            with pytest.raises(error):
                await answered(kernel, session, msgspec.structs.replace(question, id=number), principal=who)
        assert await journal(session) == before and await open_questions(kernel, session) == [question]
        await answered(kernel, session, question)
        await handle.result
        after = await journal(session)
        with pytest.raises(Conflict, match="approved already"):
            await answered(kernel, session, question, approved=False)
        assert await journal(session) == after and tool.effects == ["one"]


async def going_on(at: int, home: Path) -> None:
    """Let write `at` after an answer fail, and see how far the call comes."""
    left = [0]

    def before(place: Place, number: int) -> None:
        if place.name == "halo" and left[0] > 0:
            left[0] -= 1
            if not left[0]:
                raise StorageUnavailable("injected")

    tool, model = Acting("ask"), ScriptedModel([Calls([("ask", {"text": "one"})])])
    extra = {"faulty": FaultyStorage(before)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("halo_kernel.sessions.session._HELD_SECONDS", 0.02)
        async with running_kernel(home / "home", model=model, tools=[tool], extra=extra) as kernel:
            session = await a_session(kernel, home / "w")
            handle = session.prompt(Incoming(text="go"))
            await until(lambda: session.info.state == "waiting")
            (question,) = await open_questions(kernel, session)
            left[0] = at
            try:
                await answered(kernel, session, question)
            except StorageUnavailable:
                assert at == 1 and await open_questions(kernel, session) == [question], "it can be answered again"
                await answered(kernel, session, question)
            result = await asyncio.wait_for(handle.result, 10)
            await until(lambda: session.info.state == "idle", 10)
            events = await journal(session)
            assert len(tool.effects) <= 1 and not await open_questions(kernel, session)
            kinds = [event.kind for event in events]
            assert kinds.count("question.asked") == kinds.count("question.settled") == 1
            assert kinds.count("tool.finished") == 1 and kinds.count("turn.started") == kinds.count("turn.ended")
            if kinds.count("turn.ended") == 1:  # else a turn that was let down by the storage was gone on with
                assert result.outcome == "succeeded" or result.kind == "StorageUnavailable"
            left[0] = 0
            assert (await session.prompt(Incoming(text="on")).result).text == "echo: on"


@pytest.mark.parametrize("at", range(1, 8))
def test_going_on_may_fail_and_is_repeated(tmp_path: Path, at: int) -> None:
    """S45: whichever write fails after an answer, that counts once, the turn goes on or says why not, and all rests."""
    asyncio.run(going_on(at, tmp_path))


async def sent_meanwhile(rnd: random.Random, home: Path) -> None:
    tools, model = [Acting("ask")], ScriptedModel([Calls([("ask", {"text": "one"})])])
    async with running_kernel(home / "home", model=model, tools=tools) as kernel:
        session: Any = await a_session(kernel, home / "w")
        first = session.prompt(Incoming(text="go"))
        await until(lambda: session.info.state == "waiting")
        (question,) = await open_questions(kernel, session)
        handles = []
        for number in range(rnd.randint(1, 5)):
            mode: Mode = rnd.choice(["steer", "follow_up", "interrupt_soft"])
            handles.append(session.prompt(Incoming(text=f"m{number}", mode=mode)))
            assert (await handles[-1].accepted).question == question.id
            await asyncio.sleep(rnd.random() * 0.003)
            session.stir()
        await until(lambda: session.info.state == "waiting")
        kinds = [event.kind for event in await journal(session)]
        assert kinds.count("turn.started") == 1 == len(model.requests), "none of them has started a run"
        await answered(kernel, session, question)
        results = [(await handle.result).turn for handle in handles]
        assert set(results) - {(await first.result).turn} <= {results[-1]}, "the rest is one turn"
        told = [event.body.text for event in await journal(session) if isinstance(event.body, InputAdded)]
        assert sorted(told) == sorted(["go", *(f"m{number}" for number in range(len(handles)))])


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_what_waits_starts_no_run_while_a_question_is_open(seed: int) -> None:
    """S46, S41: messages that come while a session waits name the question, and are answered after its turn."""
    scheduled(sent_meanwhile, seed)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_crash_after_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    """S45: after a crash, an approved call that was not started runs; one that was started is not run again."""
    home, tool, held = tmp_path / "home", Acting("ask"), asyncio.Event()
    act = tool.run

    async def run(call: Call) -> str:
        result = await act(call)
        await held.wait()
        return result

    tool.run = run  # type: ignore[method-assign]
    async with running_kernel(home, model=ScriptedModel([Calls([("ask", {"text": "one"})])]), tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: session.info.state == "waiting")
        (question,) = await open_questions(kernel, session)
        if not begun:
            monkeypatch.setattr("halo_kernel.sessions.session.Session.stir", lambda session, hard=0: None)
        await answered(kernel, session, question)
        await until(lambda: tool.effects == (["one"] if begun else []))
    monkeypatch.undo()
    held.set()
    async with running_kernel(home, tools=[tool]) as kernel:
        session = await kernel.host.sessions.open(session.info.id, workspace=session.info.workspace, principal=OPERATOR)
        await until(lambda: session.info.state == "idle" and session.info.head > 0)
        await asyncio.sleep(0.1)
        await until(lambda: session.info.state == "idle")
        finished = [event.body for event in await journal(session) if isinstance(event.body, ToolFinished)]
        assert [each.outcome for each in finished] == ["interrupted" if begun else "ok"]
        assert tool.effects == ["one"]
