"""Budgets as people meet them: a turn that waits, goes on or is refused, and amounts that are right."""

from __future__ import annotations

import asyncio

from halo_kernel import Incoming
from halo_kernel.testing import Workbench, until

from .conftest import account, answer, budget, question_of, settings, settled


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
    assert asked["text"].startswith("The budget all is used up: 100 tokens of 100 tokens are spent today.")
    assert session.info.state == "waiting"
    (waits,) = (await budget(halo))["waiting"]
    assert (waits["session"], waits["question"]) == (session.info.id, asked["id"])
    await answer(halo, session, True)
    result = await asyncio.wait_for(prompt.result, 5)
    assert (result.outcome, result.turn) == ("succeeded", asked["turn"])
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
    result = await asyncio.wait_for(prompt.result, 5)
    assert (result.outcome, result.kind) == ("failed", "refused")
    assert "The budget all is used up" in result.error
    assert "not today" in result.error
    assert (await account(halo))["spent"] == 0
    await until(lambda: session.info.state == "idle")
