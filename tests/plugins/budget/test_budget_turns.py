"""Budgets as people meet them: a turn that waits, goes on or is refused, and amounts that are right."""

from __future__ import annotations

import asyncio
from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest

from halo_budget import provide_services
from halo_kernel import Forbidden, Incoming, ModelCall, Principal, Question, hook
from halo_kernel.testing import VirtualClock, Workbench, until

from .conftest import CostlyModel, account, answer, budget, client_of, question_of, settings, settled


async def test_what_a_turn_costs_is_counted(halo: Workbench) -> None:
    """Tokens of input and output are on the account once the turn is over, and nothing stays set aside."""
    await halo.start(env=settings(budgets={"all": {"tokens": 1000}}))
    await halo.ask("one")
    await settled(halo, 100)
    await halo.ask("two")
    await settled(halo, 200)
    assert (await account(halo))["left"] == 800


async def test_a_budget_that_is_used_up_asks_and_yes_lets_the_same_turn_go_on(halo: Workbench) -> None:
    """Reached: the turn waits with a question; yes allows more for the day, and the same turn answers."""
    await halo.start(env=settings(budgets={"all": {"tokens": 100}}))
    await halo.ask("one")
    await settled(halo, 100)
    session = await halo.session()
    prompt = session.prompt(Incoming(text="two"))
    asked = await question_of(session, halo)
    assert asked.text.startswith("The budget all is used up: 100 tokens of 100 tokens are spent today.")
    await until(lambda: session.info.state == "waiting")
    (waits,) = (await budget(halo))["waiting"]
    assert (waits["session"], waits["question"]) == (session.info.id, asked.id)
    await answer(halo, session, True)
    result = await asyncio.wait_for(prompt.result, 20)
    assert (result.outcome, result.turn) == ("succeeded", asked.turn)
    await settled(halo, 200)
    (act,) = (await budget(halo))["acts"]
    assert (act["act"], act["who"]) == ("approved", "operator")
    assert (await budget(halo))["waiting"] == []


async def test_no_ends_the_turn_with_a_typed_error(halo: Workbench) -> None:
    """A no ends the turn as refused, says which budget it was, and no model is called."""
    await halo.start(env=settings(budgets={"all": {"tokens": 0}}))
    session = await halo.session()
    prompt = session.prompt(Incoming(text="hello"))
    await answer(halo, session, False, "not today")
    result = await asyncio.wait_for(prompt.result, 20)
    assert (result.outcome, result.kind) == ("failed", "refused")
    assert "The budget all is used up: 0 tokens of 0 tokens are spent today." in result.error
    assert result.error.endswith("more today? No, said operator: not today")
    assert (await account(halo))["spent"] == 0
    await until(lambda: session.info.state == "idle")


async def test_a_question_survives_a_restart(halo: Workbench) -> None:
    """A turn that waits for its budget waits through a restart, and a yes given then lets it go on."""
    env = settings(budgets={"all": {"tokens": 0}})
    await halo.start(env=env)
    session = await halo.session("talk_1")
    session.prompt(Incoming(text="hello"))
    asked = await question_of(session, halo)
    await halo.start(env=env)
    session = await halo.session("talk_1")
    assert (await question_of(session, halo)).id == asked.id
    await answer(halo, session, True)
    await until(lambda: session.info.state == "idle")
    assert await session.output() == "echo: hello"
    await settled(halo, 100)


async def test_raising_a_budget_lets_those_go_on_who_wait_for_it(halo: Workbench) -> None:
    """More for today, allowed by an operator, answers the questions of the turns that have room then."""
    kernel = await halo.start(env=settings(budgets={"all": {"tokens": 0}}))
    person = Principal(name="guest", access="readonly", scheme="test")
    session = await halo.session("guest_1", principal=person)
    prompt = session.prompt(Incoming(text="hello", principal=person))
    await until(lambda: session.info.state == "waiting")
    async with client_of(kernel) as client:
        done = await client.post("/api/budgets/all/raise", json={"amount": 50})
        assert done.json()["resumed"] == 1
    assert (await asyncio.wait_for(prompt.result, 20)).outcome == "succeeded"
    await settled(halo, 100)
    found = await budget(halo)
    assert [(act["act"], act["amount"]) for act in found["acts"]] == [("raised", 50)]
    assert found["accounts"][0]["left"] == -50


async def test_who_may_not_do_everything_cannot_allow_more(halo: Workbench) -> None:
    """A question about a budget is answered by somebody with full access only."""
    kernel = await halo.start(env=settings(budgets={"all": {"tokens": 0}}))
    person = Principal(name="guest", access="workspace", scheme="test")
    session = await halo.session("guest_1", principal=person)
    session.prompt(Incoming(text="hello", principal=person))
    await until(lambda: session.info.state == "waiting")
    (asked,) = await kernel.host.questions.list(workspace=session.info.workspace, principal=person)
    with pytest.raises(Forbidden):
        await kernel.host.questions.answer(asked.id, workspace=session.info.workspace, principal=person, approved=True)


class Nosy:
    """A plugin that asks about every model call itself."""

    @hook
    async def authorize_model(self, call: ModelCall) -> Question:
        return Question(text="May I think?")


async def test_a_yes_to_somebody_elses_question_allows_nothing_here(halo: Workbench) -> None:
    """Another guard's question is not ours: its yes does not raise a budget that is used up meanwhile."""
    await halo.start(env=settings(budgets={"all": {"tokens": 0}}), plugins={"another": Nosy()})
    session = await halo.session()
    prompt = session.prompt(Incoming(text="hello"))
    asked = await question_of(session, halo)
    assert asked.text == "May I think?"
    await answer(halo, session, True)
    result = await asyncio.wait_for(prompt.result, 20)
    assert (result.outcome, result.kind) == ("failed", "refused")
    assert (await account(halo))["more"] == 0


async def test_twenty_turns_at_once_overshoot_by_what_was_in_flight_at_most(
    halo: Workbench, costly: CostlyModel
) -> None:
    """What parallel turns have set aside counts: the rest waits, and goes on as far as there is room in the end."""
    kernel = await halo.start(env=settings(budgets={"all": {"tokens": 700}}))
    costly.gate.clear()
    sessions = [await halo.session(f"talk_{number}") for number in range(20)]
    prompts = [session.prompt(Incoming(text="x" * 10)) for session in sessions]
    await until(lambda: len(costly.requests) + sum(each.info.state == "waiting" for each in sessions) == 20, 20)
    running, found = len(costly.requests), await account(halo)
    one = found["set_aside"] / running
    assert found["set_aside"] - one < 700 <= found["set_aside"]
    costly.gate.set()
    await settled(halo, 100 * running)
    (service,) = provide_services(kernel.host)
    watching = asyncio.create_task(service.run())
    await until(lambda: len(costly.requests) >= 7)
    await settled(halo, 700)
    watching.cancel()
    await asyncio.wait({watching})
    await until(lambda: sum(prompt.result.done() for prompt in prompts) == 7)
    assert sum(session.info.state == "waiting" for session in sessions) == 13


async def test_a_new_day_begins_at_midnight_of_the_zone(halo: Workbench, virtual_clock: VirtualClock) -> None:
    """The day ends when the configured zone says so; who waits goes on then, and nothing of before counts."""
    await halo.start(env=settings(budgets={"all": {"tokens": 100}}, timezone="Pacific/Auckland"))
    assert halo.kernel is not None
    async with client_of(halo.kernel) as client:
        found = (await client.get("/api/budgets")).json()
    left = (found["ends_at"] - virtual_clock.now()) / 1000
    assert datetime.fromtimestamp(found["ends_at"] / 1000, ZoneInfo("Pacific/Auckland")).time() == time()
    await halo.ask("one")
    await settled(halo, 100)
    session = await halo.session()
    prompt = session.prompt(Incoming(text="two"))
    await question_of(session, halo)
    virtual_clock.advance(left - 1)
    (service,) = provide_services(halo.kernel.host)
    watching = asyncio.create_task(service.run())
    await asyncio.sleep(0.1)
    assert session.info.state == "waiting"
    virtual_clock.advance(2)
    watching.cancel()
    watching = asyncio.create_task(service.run())
    assert (await asyncio.wait_for(prompt.result, 20)).outcome == "succeeded"
    watching.cancel()
    await asyncio.wait({watching})
    await settled(halo, 100)
    assert (await account(halo))["more"] == 0


async def test_a_call_counts_on_the_day_it_began(
    halo: Workbench, virtual_clock: VirtualClock, costly: CostlyModel
) -> None:
    """A call that runs over midnight is paid by the day before."""
    await halo.start(env=settings(budgets={"all": {"tokens": 1000}}))
    costly.gate.clear()
    session = await halo.session()
    prompt = session.prompt(Incoming(text="hello"))
    await until(lambda: costly.requests)
    virtual_clock.advance(86_400)
    costly.gate.set()
    await asyncio.wait_for(prompt.result, 20)
    await settled(halo, 0)
    virtual_clock.advance(-86_400)
    await settled(halo, 100)
