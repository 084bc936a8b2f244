"""Extensions of a turn: messages that plugins add in the write that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from halo_kernel import (
    OPERATOR,
    Extension,
    HookSkipped,
    Incoming,
    InputAdded,
    Kernel,
    Pointer,
    Principal,
    Session,
    Turn,
    TurnEnded,
    TurnStarted,
    hook,
)
from halo_kernel.testing import Answer, Fail, Hang, Postbox, ScriptedModel, a_session, journal, running_kernel, until

ROBOT = Principal(name="goal")


class Goal:
    """A plugin that adds what it is told to, once for each turn that it is told of."""

    def __init__(self, *plan: Sequence[Extension]) -> None:
        self.plan = list(plan)
        self.turns: list[Turn] = []

    @hook
    async def extend_turn(self, turn: Turn, session: Session) -> Sequence[Extension]:
        self.turns.append(turn)
        return self.plan.pop(0) if self.plan else ()


def more(text: str, *, session: str = "", **options: object) -> Extension:
    return Extension(message=Incoming(text=text, principal=ROBOT, **options), session=session)  # type: ignore[arg-type]


async def debts(kernel: Kernel, session: Session) -> list[tuple[str, str, str]]:
    found = await kernel.host.outbox.list(workspace=session.info.workspace, session=session.info.id)
    return [(each.debt, each.target, each.text) for each in reversed(found)]


async def test_a_turn_goes_on_with_what_a_plugin_adds(tmp_path: Path) -> None:
    """A message for the turn's own session starts the next turn at its level, and is in no other write than its end."""
    goal = Goal([more("go on", cause="goal")])
    async with running_kernel(tmp_path / "home", extra={"goal": goal}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="go", access="readonly")).result
        await until(lambda: len(goal.turns) == 2 and session.info.state == "idle")
        events = await journal(session)
        assert [e.body.text for e in events if isinstance(e.body, InputAdded)] == ["go", "go on"]
        assert [(e.body.cause, e.body.access) for e in events if isinstance(e.body, TurnStarted)] == [
            ("message", "readonly"),
            ("goal", "readonly"),
        ]
        assert [turn.cause for turn in goal.turns] == ["message", "goal"]


async def test_what_was_answered_meanwhile_is_interim(tmp_path: Path) -> None:
    """While a plugin goes on, routes and the pointer get interim words; the last turn's are final, once each."""
    post, model = Postbox(), ScriptedModel([Answer("one"), Answer("two"), Answer("three")])
    goal = Goal([more("on")], [more("on")])
    async with running_kernel(tmp_path / "home", model=model, extra={"goal": goal, "post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        asked = Principal(name="caller", kind="agent")
        pointer = Pointer(dispatcher="post", target="post:caller:1", claim="report")
        await session.submit(Incoming(text="go", route="post:me:here", reply_to=pointer, principal=asked))
        await until(lambda: len(goal.turns) == 3 and session.info.state == "idle")
        await until(lambda: len(post.arrived) == 5)
        found = await debts(kernel, session)
        assert [(debt, text) for debt, target, text in found if target == "post:me:here"] == [
            ("interim", "one"),
            ("interim", "two"),
            ("reply", "three"),
        ]
        reports = [(debt, text.split("\n\n")[-1]) for debt, target, text in found if target == "post:caller:1"]
        assert reports[-1] == ("report", "three") and [debt for debt, _ in reports[:-1]] == ["interim"] * len(
            reports[1:]
        )


async def test_another_session_gets_a_message(tmp_path: Path) -> None:
    """A message for another session is answered there, at the lower of both levels, though nobody holds it open."""
    async with running_kernel(tmp_path / "home", extra={"goal": (goal := Goal())}) as kernel:
        session, other = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        name, workspace = other.info.id, other.info.workspace
        await other.close("abort")  # type: ignore[attr-defined]
        del other
        goal.plan = [[more("look at this", session=name)]]
        await session.prompt(Incoming(text="go", access="workspace")).result
        other = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        await until(lambda: other.info.head > 5 and other.info.state == "idle")
        (started,) = [e.body for e in await journal(other) if isinstance(e.body, TurnStarted)]
        assert started.access == "workspace" and await other.output() == "echo: look at this"
        assert [debt for debt, *_ in await debts(kernel, session)] == []


@pytest.mark.parametrize("bad", [more(" "), more("x", session="nobody"), more("x", session="gone")])
async def test_what_cannot_be_accepted_harms_nothing(tmp_path: Path, bad: Extension) -> None:
    """An empty message, or one for a session that is not there: it is left out, the journal says so, the turn ends."""
    goal = Goal([bad, more("good")])
    async with running_kernel(tmp_path / "home", extra={"goal": goal}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="go")).result
        assert result.outcome == "succeeded"
        await until(lambda: len(goal.turns) == 2 and session.info.state == "idle")
        bodies = [event.body for event in await journal(session)]
        (skipped,) = [body for body in bodies if isinstance(body, HookSkipped)]
        assert (skipped.plugin, skipped.hook) == ("goal", "extend_turn") and skipped.error
        assert [body.text for body in bodies if isinstance(body, InputAdded)] == ["go", "good"]


async def test_only_turns_that_came_to_an_end_are_extended(tmp_path: Path) -> None:
    """A turn that failed is extended too; one that was cancelled is not: a stop is a stop."""
    goal = Goal([more("after the failure")])
    model = ScriptedModel([Fail("account"), Answer("on"), Hang()])
    async with running_kernel(tmp_path / "home", model=model, extra={"goal": goal}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).outcome == "failed"
        await until(lambda: len(model.requests) == 2 and session.info.state == "idle")
        handle = session.prompt(Incoming(text="more"))
        await until(lambda: model.active)
        goal.plan = [[more("never")]]
        session.interrupt()
        assert (await handle.result).outcome == "cancelled"
        await asyncio.sleep(0.1)
        ends = [e.body.outcome for e in await journal(session) if isinstance(e.body, TurnEnded)]
        assert ends == ["failed", "succeeded", "cancelled"] and len(goal.plan) == 1
