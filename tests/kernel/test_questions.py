"""Questions: a turn waits for a person without a task, is answered once, and goes on, whatever happens between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from halo_kernel import (
    OPERATOR,
    Call,
    Conflict,
    Denial,
    Forbidden,
    Incoming,
    Kernel,
    ModelCall,
    NotFound,
    Principal,
    Question,
    QuestionInfo,
    Session,
    ToolFinished,
    ToolSpec,
    TurnEnded,
    Tx,
    hook,
    questions,
)
from halo_kernel.sessions.rows import end_pause
from halo_kernel.testing import Calls, NoteTool, ScriptedModel, VirtualClock, a_session, journal, running_kernel, until

THREE = Calls([("note", {"text": "one"}), ("ask", {"text": "two"}), ("note", {"text": "three"})])


class Asking:
    """A tool that asks before its effect, and notes how it was answered."""

    spec = ToolSpec(name="ask", description="Ask, then act.", parameters={"type": "object"}, effect="write")

    def __init__(self, *, swallow: bool = False, expires_in: int = 60) -> None:
        self.runs: list[str] = []
        self._swallow = swallow
        self._question = Question(text="Really?", options=("a", "b"), expires_in=expires_in)

    async def run(self, call: Call) -> str:
        if call.answer is None:
            try:
                call.ask(self._question)
            except Exception:
                if not self._swallow:
                    raise
                return "I carry on regardless"
        assert call.answer is not None
        self.runs.append(call.answer.text)
        return f"answered {call.answer.approved} {call.answer.text}"


class Guard:
    """A plugin that asks about each call of `note`, or of the model."""

    def __init__(self, about: str = "note") -> None:
        self.asked: list[object] = []
        self.about = about

    @hook
    async def authorize_tool(self, call: Call) -> Denial | Question | None:
        self.asked.append(call.approval)
        return Question(text="May I note it?", access="workspace") if self.about == call.tool.name else None

    @hook
    async def authorize_model(self, call: ModelCall) -> Denial | Question | None:
        return Question(text="May I think?") if self.about == "model" else None


async def waiting(kernel: Kernel, session: Session) -> QuestionInfo:
    """Return the question that the session waits for."""
    await until(lambda: session.info.state == "waiting")
    (asked,) = await kernel.host.questions.list(workspace=session.info.workspace, principal=OPERATOR)
    return asked


async def answer(kernel: Kernel, asked: QuestionInfo, session: Session, **how: object) -> QuestionInfo:
    options: dict[str, object] = {"approved": True, "text": "a", "principal": OPERATOR, **how}
    return await kernel.host.questions.answer(asked.id, workspace=session.info.workspace, **options)  # type: ignore[arg-type]


def results(events: list[object]) -> list[tuple[str, str, str]]:
    found = [event.body for event in events if isinstance(event.body, ToolFinished)]  # type: ignore[attr-defined]
    return [(each.name, each.outcome, each.text) for each in found]


async def test_calls_before_have_their_results_and_the_rest_waits(tmp_path: Path) -> None:
    """S43: the calls before the one that asks have their results; it and all after it wait, and no task is held."""
    note, tool = NoteTool(), Asking()
    async with running_kernel(tmp_path / "home", model=ScriptedModel([THREE]), tools=[note, tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        asked = await waiting(kernel, session)
        assert (asked.tool, asked.text, asked.options, asked.state) == ("ask", "Really?", ("a", "b"), "pending")
        assert asked.arguments == {"text": "two"} and note.seen == ["one"]
        assert session._driver is None, "no task is held"  # type: ignore[attr-defined]
        assert results(await journal(session)) == [("note", "ok", "noted one")]
        done = await answer(kernel, asked, session, text="b")
        assert (done.state, done.answer, done.answered_by) == ("approved", "b", "operator")
        assert (await asyncio.wait_for(handle.result, 5)).outcome == "succeeded"
        assert note.seen == ["one", "three"] and tool.runs == ["b"]
        events = await journal(session)
        assert [name for name, _, _ in results(events)] == ["note", "ask", "note"]
        kinds = [event.kind for event in events]
        assert kinds.count("turn.started") == kinds.count("turn.ended") == 1, "it is one turn"


async def test_a_swallowed_question_is_asked_all_the_same(tmp_path: Path) -> None:
    """What a tool does after it has asked does not count, even if it catches what `ask` raises."""
    tool = Asking(swallow=True)
    model = ScriptedModel([Calls([("ask", {})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await answer(kernel, await waiting(kernel, session), session)
        await handle.result
        assert results(await journal(session)) == [("ask", "ok", "answered True a")]


async def test_an_answer_counts_once(tmp_path: Path) -> None:
    """S44: of two answers at once one settles the question, the other is told that it came too late."""
    async with running_kernel(
        tmp_path / "home", model=ScriptedModel([Calls([("ask", {})])]), tools=[Asking()]
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        asked = await waiting(kernel, session)
        both = await asyncio.gather(
            answer(kernel, asked, session), answer(kernel, asked, session, approved=False), return_exceptions=True
        )
        assert sum(isinstance(each, Conflict) for each in both) == 1
        await handle.result
        kinds = [event.kind for event in await journal(session)]
        assert kinds.count("question.settled") == 1


@pytest.mark.parametrize(
    ("principal", "error"),
    [
        (Principal(name="operator", access="readonly"), Forbidden),
        (Principal(name="somebody"), NotFound),
        (Principal(name="operator", kind="agent"), NotFound),
    ],
)
async def test_who_may_not_answer(tmp_path: Path, principal: Principal, error: type[Exception]) -> None:
    """S44: a question is answered by its session's principal, at the call's level or above; others have none."""
    async with running_kernel(
        tmp_path / "home", model=ScriptedModel([Calls([("ask", {})])]), tools=[Asking()]
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        session.prompt(Incoming(text="go"))
        asked = await waiting(kernel, session)
        with pytest.raises(error):
            await answer(kernel, asked, session, principal=principal)
        assert session.info.state == "waiting"


@pytest.mark.parametrize("approved", [True, False])
async def test_a_guard_asks_and_is_asked_again_with_the_approval(tmp_path: Path, approved: bool) -> None:
    """After an approval every guard is asked again, and only a denial counts; a refusal is the call's result."""
    guard, note = Guard(), NoteTool()
    async with running_kernel(
        tmp_path / "home",
        model=ScriptedModel([Calls([("note", {"text": "x"})])]),
        tools=[note],
        extra={"guard": guard},
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        asked = await waiting(kernel, session)
        assert asked.text == "May I note it?" and note.seen == []
        await answer(kernel, asked, session, approved=approved, text="no way")
        await handle.result
        assert note.seen == (["x"] if approved else [])
        ((_, outcome, text),) = results(await journal(session))
        assert outcome == ("ok" if approved else "denied")
        assert approved or text == "Refused by operator: no way"
        assert [getattr(each, "approved", None) for each in guard.asked] == ([None, True] if approved else [None])


async def test_a_guard_of_model_calls_asks(tmp_path: Path) -> None:
    """A turn waits before its model call; approved, it is answered, and the tree kept what it owes."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"guard": Guard("model")}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="hi"))
        asked = await waiting(kernel, session)
        assert asked.text == "May I think?" and not model.requests
        await answer(kernel, asked, session)
        assert (await asyncio.wait_for(handle.result, 5)).text == "echo: hi"


async def test_a_refused_model_call_fails_the_turn(tmp_path: Path) -> None:
    """A person's no to a model call ends the turn with a sentence that has their words."""
    async with running_kernel(tmp_path / "home", extra={"guard": Guard("model")}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="hi"))
        await answer(kernel, await waiting(kernel, session), session, approved=False, text="too dear")
        result = await asyncio.wait_for(handle.result, 5)
        assert result.outcome == "failed" and "too dear" in result.error


async def test_time_answers_with_no(tmp_path: Path) -> None:
    """A question that nobody answers in time counts as denied, and the turn goes on."""
    tool = Asking(expires_in=1)
    async with running_kernel(tmp_path / "home", model=ScriptedModel([Calls([("ask", {})])]), tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await asyncio.wait_for(handle.result, 10)
        assert results(await journal(session)) == [("ask", "ok", "answered False expired")]


async def restarted(
    home: Path, folder: Path, between: Callable[[Kernel, Session], object], *, tool: Asking
) -> list[object]:
    """Ask, close the kernel, start another, do something, and return the journal once the turn has ended."""
    note = NoteTool()
    async with running_kernel(home, model=ScriptedModel([THREE]), tools=[note, tool]) as kernel:
        session = await a_session(kernel, folder)
        await session.submit(Incoming(text="go"))
        await waiting(kernel, session)
        name, workspace = session.info.id, session.info.workspace
    async with running_kernel(home, tools=[note, tool]) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        waited = between(kernel, session)
        if asyncio.iscoroutine(waited):
            await waited
        await until(lambda: session.info.state == "idle", 10)
        return [*await journal(session)]


async def test_a_question_outlives_the_process(tmp_path: Path) -> None:
    """S42: the journal of a question that is answered after a restart is that of one without, but for ids and times."""

    async def go_on(kernel: Kernel, session: Session) -> None:
        await answer(kernel, await waiting(kernel, session), session)

    events = await restarted(tmp_path / "home", tmp_path / "w", go_on, tool=Asking())
    assert [name for name, _, _ in results(events)] == ["note", "ask", "note"]
    kinds = [event.kind for event in events]  # type: ignore[attr-defined]
    assert kinds.count("turn.started") == 1 and kinds.count("turn.ended") == 1
    assert "nudge" not in "".join(str(event) for event in events)


async def test_time_goes_on_while_no_process_runs(tmp_path: Path) -> None:
    """A question whose time is over while nothing ran is settled at the next start."""
    events = await restarted(
        tmp_path / "home", tmp_path / "w", lambda kernel, session: asyncio.sleep(1.2), tool=Asking(expires_in=1)
    )
    assert ("ask", "ok", "answered False expired") in results(events)


@pytest.mark.parametrize("how", ["answered", "cancelled"])
async def test_a_child_whose_question_is_settled_goes_on_at_the_next_start(tmp_path: Path, how: str) -> None:
    """The process that settled it may die before it could let the session go on; a child is nobody's to open then."""
    home, tool = tmp_path / "home", Asking()
    async with running_kernel(home, model=ScriptedModel([Calls([("ask", {})])]), tools=[tool]) as kernel:
        child = await (await a_session(kernel, tmp_path / "w")).start_child("default")
        await child.submit(Incoming(text="go"))
        number, name = (await waiting(kernel, child)).id, child.info.id

    def settle(tx: Tx) -> object:
        if how == "cancelled":
            return end_pause(tx, name, at=seat.clock.now())
        return questions.answer(tx, number, OPERATOR, approved=True, text="a", at=seat.clock.now())

    async with running_kernel(home, tools=[tool], recover=False) as kernel:
        await kernel.host.workspaces.open(tmp_path / "w")
        seat = kernel.workspaces.seats[child.info.workspace]
        await seat.database.write(settle)
    async with running_kernel(home, tools=[tool]) as kernel:
        child = await kernel.host.sessions.open(name, workspace=child.info.workspace, principal=OPERATOR)
        await until(lambda: child.info.state == "idle")
        (end,) = [event.body for event in await journal(child) if isinstance(event.body, TurnEnded)]
        assert end.outcome == ("succeeded" if how == "answered" else "cancelled")
    assert tool.runs == (["a"] if how == "answered" else [])


async def test_input_waits_behind_a_question(tmp_path: Path) -> None:
    """S46: a message to a waiting session is accepted, its receipt names the question, and its turn is the next."""
    model = ScriptedModel([Calls([("ask", {})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[Asking()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        session.prompt(Incoming(text="go"))
        asked = await waiting(kernel, session)
        receipt = await session.submit(Incoming(text="meanwhile"))
        assert receipt.question == asked.id
        later = session.prompt(Incoming(text="later"))
        await asyncio.sleep(0.1)
        assert session.info.state == "waiting" and len(model.requests) == 1
        await answer(kernel, asked, session)
        assert (await asyncio.wait_for(later.result, 5)).outcome == "succeeded"


@pytest.mark.parametrize("how", ["interrupt_hard", "interrupt", "stop", "archive"])
async def test_what_goes_before_a_question(tmp_path: Path, how: str) -> None:
    """A hard interrupt, a cancel, a stop and an archive settle the question as denied and end its turn."""
    tool = Asking()
    async with running_kernel(tmp_path / "home", model=ScriptedModel([Calls([("ask", {})])]), tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="go"))
        await waiting(kernel, session)
        if how == "interrupt_hard":
            second = session.prompt(Incoming(text="now", mode="interrupt_hard"))
            assert (await asyncio.wait_for(second.result, 5)).outcome == "succeeded"
        elif how == "interrupt":
            assert session.interrupt()
        else:
            await getattr(session, how)()
        wanted = "interrupted" if how == "interrupt_hard" else "cancelled"
        assert (await asyncio.wait_for(first.result, 5)).outcome == wanted
        events = await journal(session)
        assert [event.body.state for event in events if event.kind == "question.settled"] == ["denied"]  # type: ignore[union-attr]
        ended = [event.body.outcome for event in events if isinstance(event.body, TurnEnded)]
        assert ended[0] == wanted and tool.runs == []
        assert not await kernel.host.questions.list(workspace=session.info.workspace, principal=OPERATOR)


async def test_an_expired_question_is_not_answered(tmp_path: Path) -> None:
    """S44: an answer that comes after the time is over changes nothing, though nobody has settled the question yet."""
    clock = VirtualClock()
    async with running_kernel(
        tmp_path / "home", model=ScriptedModel([Calls([("ask", {})])]), tools=[Asking()], clock=clock
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        session.prompt(Incoming(text="go"))
        asked = await waiting(kernel, session)
        await clock.sleep(61)
        with pytest.raises(Conflict, match="expired"):
            await answer(kernel, asked, session)
