"""What a budget is about, and that every call of it counts: retries, children, what goes beside a turn, money."""

from __future__ import annotations

import asyncio

import pytest

from halo_kernel import Incoming, Message, ModelError, ModelRequest, Principal, Text, Usage
from halo_kernel.testing import Answer, Hang, Workbench, until

from .conftest import PRICE, CostlyModel, account, budget, settings, settled

EACH = {name: {"tokens": 10_000, "each": name} for name in ("agent", "channel", "user", "job")}


async def test_agent_channel_user_and_job_have_accounts_of_their_own(halo: Workbench) -> None:
    """With `each`, a turn counts for its agent, its channel, its user, and every job that it is part of."""
    kernel = await halo.start(env=settings(budgets=EACH))
    who = Principal(name="ada")
    first = await halo.session()
    session = await kernel.host.sessions.create(workspace=first.info.workspace, principal=who, origin="slack")
    await session.mark("cron:report")
    await session.prompt(Incoming(text="hello", principal=who, cause="heartbeat")).result
    for name, of in (("agent", "default"), ("channel", "slack"), ("user", "ada"), ("job", "heartbeat")):
        await settled(halo, 100, name, of)
    assert (await account(halo, "job", "cron:report"))["spent"] == 100
    await first.prompt(Incoming(text="hello")).result
    await settled(halo, 100, "user", "operator")
    assert (await account(halo, "user", "ada"))["spent"] == 100


async def test_sub_sessions_count_for_the_channel_and_the_job_of_their_root(halo: Workbench) -> None:
    """What an agent has others do is spent by whoever asked it."""
    kernel = await halo.start(env=settings(budgets={"all": {"tokens": 10_000, "channel": "slack", "job": "cron:x"}}))
    first = await halo.session()
    root = await kernel.host.sessions.create(
        workspace=first.info.workspace, principal=Principal(name="operator"), origin="slack"
    )
    await root.mark("cron:x")
    child = await (await root.start_child("default")).start_child("default")
    await child.prompt(Incoming(text="hello")).result
    await settled(halo, 300)  # its own turn, and those of the two above that hear of its answer
    await first.prompt(Incoming(text="hello")).result
    await asyncio.sleep(0.05)
    assert (await account(halo))["spent"] == 300


async def test_a_retried_answer_is_paid_for_twice(halo: Workbench, costly: CostlyModel) -> None:
    """An attempt that does not count for the conversation counts for the budget, if its model reported a cost."""
    costly.then(Answer(""), Answer("yes"))
    await halo.start(env=settings(budgets={"all": {"tokens": 10_000}}))
    assert (await halo.ask("hello")).text == "yes"
    await settled(halo, 200)


REQUEST = ModelRequest(model="", system="", messages=(Message("user", (Text("sum it up"),)),))


async def test_calls_beside_a_turn_count_and_are_refused(halo: Workbench) -> None:
    """A compaction is paid from the same budget; nobody can wait for a yes there, so it is refused, with a way out."""
    await halo.start(env=settings(budgets={"all": {"tokens": 100}}))
    session = await halo.session()
    assert await session.complete(REQUEST, purpose="compaction") == "echo: sum it up"
    await settled(halo, 100)
    with pytest.raises(ModelError, match="used up") as refused:
        await session.complete(REQUEST, purpose="compaction")
    assert refused.value.kind == "refused"
    assert "halo budget raise" in refused.value.message
    assert (await account(halo))["set_aside"] == 0


async def test_a_cut_call_that_reported_nothing_counts_as_what_was_set_aside(
    halo: Workbench, costly: CostlyModel
) -> None:
    """Who stops a turn does not get for nothing what its model had begun."""
    costly.then(Hang("so far"))
    await halo.start(env=settings(budgets={"all": {"tokens": 10_000}}))
    session = await halo.session()
    prompt = session.prompt(Incoming(text="hello"))
    await until(lambda: costly.requests)
    aside = (await account(halo))["set_aside"]
    assert aside > 0
    assert session.interrupt()
    await prompt.result
    await settled(halo, aside)


async def test_money_is_counted_by_the_price_of_the_models_offer(halo: Workbench, costly: CostlyModel) -> None:
    """Input, output and both kinds of cache tokens have a price; one that is not said is that of input."""
    costly.price = PRICE
    costly.usage = Usage(input=10, output=20, cache_read=100, cache_write=3)
    await halo.start(env=settings(budgets={"all": {"money": 100}}))
    await halo.ask("hello")
    await settled(halo, 1 + 4 + 1 + 0.3)
    assert (await budget(halo))["unit"] == "USD"


async def test_a_model_without_a_price_is_not_counted_in_money_and_this_is_said(
    halo: Workbench, costly: CostlyModel
) -> None:
    """Without a price, or with one in another currency, tokens alone are noted, by model; token budgets count all."""
    both = {"cash": {"money": 0.01, "currency": "EUR"}, "all": {"tokens": 1000}}
    costly.price = PRICE
    await halo.start(env=settings(budgets=both))
    assert (await halo.ask("hello")).outcome == "succeeded"
    await settled(halo, 100)
    found = await account(halo, "cash")
    assert (found["spent"], found["set_aside"], found["unpriced"]) == (0, 0, {"costly/model": 100})


async def test_a_price_in_the_settings_goes_first(halo: Workbench) -> None:
    """`budget.prices` gives a model a price that nobody else says."""
    price = {"costly/model": {"currency": "CNY", "date": "2026-11-01", "input": 1000, "output": 1000}}
    await halo.start(env=settings(budgets={"all": {"money": 5, "currency": "CNY"}}, prices=price))
    await halo.ask("hello")
    await settled(halo, 0.1)
    assert (await account(halo))["unpriced"] == {}
