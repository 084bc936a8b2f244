"""Topics inside one process: hints that cost nobody anything."""

from __future__ import annotations

import asyncio
import gc
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import BadInput
from halo_kernel.live import Live, Subscription

HELD = 256


async def taken(subscription: Subscription) -> list[object]:
    """Close a subscription and take what waits."""
    subscription.close()
    return [value async for value in subscription]


async def test_a_value_reaches_those_who_listen_to_its_topic() -> None:
    """Every subscriber of a topic gets each value once, in order, from the call of `subscribe` on; others get none."""
    live = Live()
    live.publish("cron:run", 0)
    first, second, other = live.subscribe("cron:run"), live.subscribe("cron:run"), live.subscribe("cron:other")
    live.publish("cron:run", 1)
    live.publish("cron:run", 2)
    assert [await taken(each) for each in (first, second, other)] == [[1, 2], [1, 2], []]


async def test_a_reader_waits_and_is_woken() -> None:
    """`async for` goes on with each value as it comes, and ends when the subscription is closed."""
    live, found = Live(), list[object]()
    subscription = live.subscribe("cron:run")

    async def read() -> None:
        async for value in subscription:
            found.append(value)

    reader = asyncio.create_task(read())
    for number in range(3):
        await asyncio.sleep(0)
        live.publish("cron:run", number)
        await asyncio.sleep(0)
        assert found == list(range(number + 1))
    subscription.close()
    await asyncio.wait_for(reader, 1)
    live.publish("cron:run", 9)
    assert found == [0, 1, 2]


@given(st.lists(st.none() | st.integers(0, 2 * HELD), max_size=8))
async def test_a_slow_reader_loses_the_oldest_and_knows_how_many(steps: list[int | None]) -> None:
    """Nothing waits for a reader: it gets the newest values in order, and what is missing is counted."""
    live, number = Live(), 0
    slow, model, missed = live.subscribe("a:b"), deque[int](), 0
    for step in steps:
        if step is None:
            for _ in range(min(len(model), 100)):
                assert await anext(slow) == model.popleft()
            continue
        for _ in range(step):
            live.publish("a:b", number)
            model.append(number)
            number += 1
        while len(model) > HELD:
            model.popleft()
            missed += 1
        assert slow.missed == missed
    assert await taken(slow) == list(model)


async def test_what_waits_can_be_taken_after_the_end() -> None:
    """A closed subscription gives what it has, then ends, every time it is asked."""
    live = Live()
    subscription = live.subscribe("a:b")
    live.publish("a:b", 1)
    subscription.close()
    live.publish("a:b", 2)
    assert await taken(subscription) == [1]
    with pytest.raises(StopAsyncIteration):
        await anext(subscription)


async def test_a_reader_that_was_cancelled_leaves_the_values() -> None:
    """A cancelled wait takes nothing away."""
    live = Live()
    subscription = live.subscribe("a:b")
    waiting = asyncio.ensure_future(anext(subscription))
    await asyncio.sleep(0)
    live.publish("a:b", 1)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert await taken(subscription) == [1]


async def test_a_dropped_subscription_is_gone() -> None:
    """Who forgets to close keeps nothing alive: neither the subscription nor the values."""
    live = Live()

    class Value:
        pass

    def use() -> None:
        for _ in range(10):
            subscription = live.subscribe("a:b")
            live.publish("a:b", Value())
            assert subscription.missed == 0

    use()
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, Value | Subscription)]


@pytest.mark.parametrize("topic", ["", "run", "cron:", ":run", "Cron:run", "cron:run:x", "cron run:x", "cron:run\n"])
async def test_a_topic_has_a_form(topic: str) -> None:
    """A topic names its plugin, so that two plugins never meet on one by accident."""
    with pytest.raises(BadInput) as raised:
        Live().subscribe(topic)
    assert raised.value.field == "topic"
