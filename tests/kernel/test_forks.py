"""Forks: a copy of a session's history that goes on by itself."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Call,
    CursorGone,
    Event,
    Incoming,
    Kernel,
    ModelRequest,
    NotFound,
    Principal,
    Question,
    QuestionSettled,
    Session,
    SessionForked,
    ToolFinished,
    ToolSpec,
    TurnEnded,
    repair_history,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    NoteTool,
    ScriptedModel,
    Step,
    a_session,
    journal,
    running_kernel,
    until,
)


class AskTool:
    """A tool that asks before it does anything."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?"))
        return "fine"


async def forked(kernel: Kernel, session: Session, **options: object) -> Session:
    which = {"workspace": session.info.workspace, "principal": OPERATOR}
    return await kernel.host.sessions.fork(session.info.id, **which, **options)  # type: ignore[arg-type]


def facts(events: list[Event]) -> list[tuple[int, int, str, object]]:
    return [(event.seq, event.at, event.turn, event.body) for event in events]


async def test_a_fork_begins_with_the_same_history(tmp_path: Path) -> None:
    """S35: the copy's journal is the original's as it was, and what either writes later is not the other's."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hello")).result
        await session.append("birds.seen", {"text": "a heron"}, state={"herons": 1})
        before = facts(await journal(session))
        copy = await forked(kernel, session)
        origin = (await journal(copy))[-1].body
        assert origin == SessionForked(source=session.info.id, head=len(before))
        assert facts(await journal(copy))[:-1] == before
        assert (copy.info.root, copy.info.parent, copy.info.title) == (copy.info.id, None, "hello")
        assert await copy.state("birds") == {"herons": 1}
        await asyncio.gather(copy.prompt(Incoming(text="stork")).result, session.prompt(Incoming(text="gull")).result)
        assert "gull" not in str(await journal(copy)) and "stork" not in str(await journal(session))
        assert await copy.output() == "echo: stork"


async def test_a_forks_history_is_its_models(tmp_path: Path) -> None:
    """The copy's model is shown what the original's was, and then what is said to the copy."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="remember the heron")).result
        copy = await forked(kernel, session, title="another way")
        assert copy.info.title == "another way"
        await copy.prompt(Incoming(text="and now?")).result
        first, second = model.requests
        assert second.messages[: len(first.messages)] == first.messages and "and now?" in str(second.messages[-1])


async def test_a_running_turn_is_cut_in_the_copy_alone(tmp_path: Path) -> None:
    """S35: the copy's open turn is closed as interrupted with a result for each call; the original's runs on."""
    gate = asyncio.Event()
    model = ScriptedModel([Calls([("note", {"text": "x"}), ("note", {"text": "y"})]), Answer("done")])
    async with running_kernel(
        tmp_path / "home", model=model, tools=[NoteTool(wait=lambda call: gate.wait())]
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await until(lambda: model.requests)
        await asyncio.sleep(0.05)
        copy = await forked(kernel, session)
        bodies = [event.body for event in await journal(copy)]
        (end,) = [body for body in bodies if isinstance(body, TurnEnded)]
        assert (end.outcome, end.kind) == ("interrupted", "fork")
        assert [b.outcome for b in bodies if isinstance(b, ToolFinished)] == ["interrupted", "not_run"]
        assert copy.info.state == "idle"
        gate.set()
        assert (await handle.result).text == "done"
        assert (await copy.prompt(Incoming(text="go on")).result).outcome == "succeeded"


async def test_a_question_stays_with_the_original(tmp_path: Path) -> None:
    """A copy of a session that waits has no question: it is settled there, and only the original's can be answered."""
    model = ScriptedModel([Calls([("ask", {})]), Answer("thanks")])
    async with running_kernel(tmp_path / "home", model=model, tools=[AskTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: session.info.state == "waiting")
        copy = await forked(kernel, session)
        assert copy.info.state == "idle" and session.info.state == "waiting"
        (settled,) = [e.body for e in await journal(copy) if isinstance(e.body, QuestionSettled)]
        assert (settled.state, settled.by) == ("denied", "fork")
        (question,) = await kernel.host.questions.list(workspace=session.info.workspace, principal=OPERATOR)
        assert question.session == session.info.id
        await kernel.host.questions.answer(
            question.id, workspace=session.info.workspace, principal=OPERATOR, approved=True
        )
        await until(lambda: session.info.state == "idle")
        assert await session.output() == "thanks" and await copy.output() == ""


async def test_what_waits_is_not_copied(tmp_path: Path) -> None:
    """Waiting messages, and to whom the work is reported, are the original's alone."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go"))
        await until(lambda: model.active)
        await session.submit(Incoming(text="later", mode="follow_up", key="k"))
        copy = await forked(kernel, session)
        assert copy.info.state == "idle"
        session.interrupt()
        await until(lambda: session.info.state == "idle" and len(model.requests) == 2)
        assert "later" not in str(await journal(copy))


async def test_a_fork_of_a_child_is_a_root(tmp_path: Path) -> None:
    """A copy of a child is a tree of its own, and reports to nobody."""
    async with running_kernel(tmp_path / "home") as kernel:
        parent = await a_session(kernel, tmp_path / "w")
        child = await parent.start_child("default")
        await child.prompt(Incoming(text="work")).result
        await until(lambda: parent.info.head > 5 and parent.info.state == "idle")
        copy = await forked(kernel, child)
        told = len(await journal(parent))
        await copy.prompt(Incoming(text="more")).result
        await asyncio.sleep(0.1)
        assert copy.info.parent is None and len(await journal(parent)) == told


async def test_cursors_of_the_original_are_gone_in_the_copy(tmp_path: Path) -> None:
    """A cursor is of one journal: the copy's readers begin anew."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        receipt = await session.submit(Incoming(text="hello"))
        copy = await forked(kernel, session)
        with pytest.raises(CursorGone):
            [update async for update in copy.events(receipt.cursor)]


async def test_nobody_forks_what_is_not_theirs(tmp_path: Path) -> None:
    """A foreign session is not found, nor is a deleted one; a principal of a lower level gets a copy of that level."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        which = {"workspace": session.info.workspace}
        with pytest.raises(NotFound):
            await kernel.host.sessions.fork(session.info.id, principal=Principal(name="other"), **which)
        lower = Principal(name=OPERATOR.name, access="readonly")
        copy = await kernel.host.sessions.fork(session.info.id, principal=lower, **which)
        assert copy.info.access == "readonly"
        await kernel.host.sessions.delete(session.info.id, principal=OPERATOR, **which)
        with pytest.raises(NotFound):
            await forked(kernel, session)


async def _scenario(seed: int, home: Path) -> None:
    rnd = random.Random(seed)

    def respond(request: ModelRequest) -> Step:
        assert repair_history(request.messages) == request.messages, "a provider takes it"
        return rnd.choice([Answer("a"), Calls([("note", {"text": "x"}), ("note", {"text": "y"})])])

    tool = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.004))
    async with running_kernel(home / "home", model=ScriptedModel(responder=respond), tools=[tool]) as kernel:
        session = await a_session(kernel, home / "w")
        session.prompt(Incoming(text="go"))
        await asyncio.sleep(rnd.random() * 0.05)
        copy = await forked(kernel, session)
        made = (await journal(copy))[-1].body
        assert isinstance(made, SessionForked)
        assert facts(await journal(copy))[: made.head] == facts(await journal(session))[: made.head]
        assert (await copy.prompt(Incoming(text="on")).result).outcome == "succeeded"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_fork_at_any_moment_goes_on(seed: int) -> None:
    """S35: whenever a session is forked, the copy is the original up to then, and its next turn has a valid history."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_scenario(seed, Path(folder)))
