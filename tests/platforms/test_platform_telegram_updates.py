"""Updates: numbered, waited for, confirmed by an offset, or pushed to a webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from .conftest import Telegram
from .telegram.wire import Connection, Request

OTHER = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
HOOKED = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"


def texts(updates: list[dict[str, Any]]) -> list[str]:
    return [update["message"]["text"] for update in updates]


async def polled(telegram: Telegram, **arguments: Any) -> asyncio.Task[dict[str, Any]]:
    """Begin a poll and wait until the platform has it."""
    before = telegram.server.world.bot(0).updates.poll
    task = asyncio.ensure_future(telegram.call("getUpdates", timeout=30, **arguments))
    updates = telegram.server.world.bot(0).updates
    await telegram.server.world.until(lambda: updates.poll is not None and updates.poll is not before, 40)
    return task


async def test_an_offset_confirms(telegram: Telegram) -> None:
    """Updates come until a poll asks for those after them; a lower offset brings none back."""
    for text in "abc":
        telegram.stage.say(telegram.ann, text)
    first = await telegram.done("getUpdates")
    assert texts(first) == ["a", "b", "c"]
    assert await telegram.done("getUpdates", limit=2) == first[:2]
    assert texts(await telegram.done("getUpdates", offset=first[1]["update_id"])) == ["b", "c"]
    assert texts(await telegram.done("getUpdates", offset=0)) == ["b", "c"]
    assert await telegram.done("getUpdates", offset=first[2]["update_id"] + 1) == []
    assert telegram.stage.pending() == []


async def test_a_negative_offset_keeps_the_newest(telegram: Telegram) -> None:
    """A negative offset forgets all but so many."""
    for text in "abc":
        telegram.stage.say(telegram.ann, text)
    assert texts(await telegram.done("getUpdates", offset=-1)) == ["c"]
    assert texts(await telegram.done("getUpdates")) == ["c"]


async def test_a_hundred_come_at_once(telegram: Telegram) -> None:
    """One poll brings at most 100, whatever it asks for."""
    for number in range(120):
        telegram.stage.say(telegram.ann, f"{number}")
    assert len(await telegram.done("getUpdates", limit=1000)) == 100


async def test_a_poll_waits_for_what_is_said(telegram: Telegram) -> None:
    """A poll with a time to wait is answered as soon as there is something."""
    poll = await polled(telegram)
    assert telegram.stage.polling()
    telegram.stage.say(telegram.ann, "hello")
    assert texts((await poll)["result"]) == ["hello"]


async def test_a_poll_waits_no_longer_than_it_says(telegram: Telegram) -> None:
    """A poll during which nothing happens brings nothing."""
    assert await telegram.done("getUpdates", timeout=1) == []
    assert not telegram.stage.polling()


async def test_a_second_poll_ends_the_first(telegram: Telegram) -> None:
    """Two polls at once are a conflict for the one that waited."""
    first = await polled(telegram)
    second = await polled(telegram)
    assert (await first)["description"] == OTHER
    telegram.stage.say(telegram.ann, "hello")
    assert texts((await second)["result"]) == ["hello"]


async def test_a_client_that_leaves_does_not_poll_any_more(telegram: Telegram) -> None:
    """A poll ends with its connection."""
    poll = await polled(telegram)
    poll.cancel()
    await telegram.server.world.until(lambda: not telegram.stage.polling(), 40)
    await telegram.server.world.until(lambda: telegram.stage.calls()[-1]["outcome"] == "the client left", 40)


async def test_kinds_are_queued_only_if_asked_for(telegram: Telegram) -> None:
    """`allowed_updates` holds from then on; reactions have to be named."""
    sent = await telegram.done("sendMessage", chat_id=telegram.ann, text="x")
    telegram.stage.react(telegram.ann, sent["message_id"], "👍")
    assert await telegram.done("getUpdates", allowed_updates=["message_reaction"]) == []
    telegram.stage.say(telegram.ann, "unheard")
    telegram.stage.react(telegram.ann, sent["message_id"], "🔥")
    (update,) = await telegram.done("getUpdates")
    assert update["message_reaction"]["old_reaction"] == [{"type": "emoji", "emoji": "👍"}]
    assert update["message_reaction"]["new_reaction"] == [{"type": "emoji", "emoji": "🔥"}]


async def test_a_repeated_update_comes_under_its_number(telegram: Telegram) -> None:
    """A duplicate comes although it was confirmed, and once."""
    telegram.stage.say(telegram.ann, "a")
    (first,) = await telegram.done("getUpdates")
    after = first["update_id"] + 1
    assert await telegram.done("getUpdates", offset=after) == []
    telegram.stage.repeat(first["update_id"])
    telegram.stage.say(telegram.ann, "b")
    again = await telegram.done("getUpdates", offset=after)
    assert again[0] == first
    assert texts(again) == ["a", "b"]
    assert texts(await telegram.done("getUpdates", offset=after)) == ["b"]


async def test_polls_and_a_webhook_exclude_each_other(telegram: Telegram) -> None:
    """A webhook ends the poll that waits and refuses further ones, until it is deleted."""
    poll = await polled(telegram)
    await telegram.done("setWebhook", url="http://127.0.0.1:9/")
    assert (await poll)["description"] == "Conflict: terminated by setWebhook request"
    refused = await telegram.call("getUpdates")
    assert (refused["error_code"], refused["description"]) == (409, HOOKED)
    await telegram.done("deleteWebhook")
    assert await telegram.done("getUpdates") == []


@dataclass
class Hook:
    """A bot's own server: it answers with `answers` in turn, then 200."""

    url: str = ""
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    got: list[Request] = field(default_factory=list)
    most: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _now: int = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        while request := await connection.request(lambda path: 2**20):
            self._now += 1
            self.most = max(self.most, self._now)
            self.got.append(request)
            self.arrived.set()
            await asyncio.sleep(0)
            status, body = self.answers.pop(0) if self.answers else (200, b"")
            self._now -= 1
            await connection.answer(status, body)
        connection.close()

    @property
    def texts(self) -> list[str]:
        return [json.loads(request.body)["message"]["text"] for request in self.got]


@asynccontextmanager
async def hooked(telegram: Telegram, *answers: tuple[int, bytes], **options: Any) -> AsyncIterator[Hook]:
    """Set a webhook on a server of its own."""
    hook = Hook(answers=list(answers))
    async with await asyncio.start_server(hook.accept, "127.0.0.1", 0) as server:
        hook.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/updates"
        await telegram.done("setWebhook", url=hook.url, **options)
        yield hook
        await telegram.done("deleteWebhook")


async def taken(telegram: Telegram) -> None:
    """Wait until every update was taken."""
    await telegram.server.world.until(lambda: not telegram.stage.pending() and bool(telegram.stage.pushes()), 40)
    await telegram.done("getMe")


async def test_a_webhook_gets_one_update_after_the_other(telegram: Telegram) -> None:
    """Updates are pushed with the secret, in order, one at a time."""
    for text in "abc":
        telegram.stage.say(telegram.ann, text)
    async with hooked(telegram, secret_token="s3cret_-") as hook:
        await taken(telegram)
        assert hook.texts == ["a", "b", "c"]
        assert hook.most == 1
        assert {request.headers["x-telegram-bot-api-secret-token"] for request in hook.got} == {"s3cret_-"}
        assert {(request.method, request.path) for request in hook.got} == {("POST", "/updates")}
        info = await telegram.done("getWebhookInfo")
        assert (info["url"], info["pending_update_count"]) == (hook.url, 0)


async def test_an_update_that_is_not_taken_is_pushed_again(telegram: Telegram) -> None:
    """A failed push is made again after a wait, before any other; getWebhookInfo says why."""
    telegram.stage.rules(webhook_backoff=0.01)
    for text in "ab":
        telegram.stage.say(telegram.ann, text)
    async with hooked(telegram, (500, b""), (302, b"")) as hook:
        await taken(telegram)
        assert hook.texts == ["a", "a", "a", "b"]
        info = await telegram.done("getWebhookInfo")
        assert info["last_error_message"] == "Wrong response from the webhook: 302 Found"
        assert info["last_error_date"] == 1_800_000_000


async def test_a_push_whose_answer_is_lost_comes_twice(telegram: Telegram) -> None:
    """What a bot's server has taken is pushed again if the platform never learns of it."""
    telegram.stage.rules(webhook_backoff=0.01)
    telegram.stage.fault("lost_request", method="push")
    telegram.stage.fault("lost_answer", method="push")
    telegram.stage.say(telegram.ann, "a")
    async with hooked(telegram) as hook:
        await taken(telegram)
        assert hook.texts == ["a", "a"]
    assert [each["status"] for each in telegram.stage.pushes()] == [0, 200, 200]


async def test_a_wait_before_the_next_push_can_be_cut_short(telegram: Telegram) -> None:
    """`hurry` ends the wait, so that a test need not."""
    telegram.stage.rules(webhook_backoff=300)
    telegram.stage.say(telegram.ann, "a")
    async with hooked(telegram, (500, b"")) as hook:
        await telegram.server.world.until(lambda: len(telegram.stage.pushes()) == 1, 40)
        await telegram.done("getMe")
        telegram.stage.hurry()
        await taken(telegram)
        assert hook.texts == ["a", "a"]


async def test_a_webhook_nobody_listens_at_is_an_error(telegram: Telegram) -> None:
    """A refused connection counts as a failure, and the updates stay."""
    await telegram.done("setWebhook", url="http://127.0.0.1:9/")
    telegram.stage.say(telegram.ann, "a")
    await telegram.server.world.until(lambda: bool(telegram.stage.pushes()), 40)
    info = await telegram.done("getWebhookInfo")
    assert (info["last_error_message"], info["pending_update_count"]) == ("Connection refused", 1)
    await telegram.done("deleteWebhook")
    assert texts(await telegram.done("getUpdates")) == ["a"]


async def test_a_webhook_may_answer_with_a_method(telegram: Telegram) -> None:
    """What a webhook's answer asks for is done."""
    reply = json.dumps({"method": "sendMessage", "chat_id": telegram.ann, "text": "at once"}).encode()
    telegram.stage.say(telegram.ann, "a")
    async with hooked(telegram, (200, reply)):
        await telegram.server.world.until(lambda: telegram.stage.texts(telegram.ann) == ["at once"], 40)


async def test_pending_updates_can_be_dropped(telegram: Telegram) -> None:
    """`drop_pending_updates` forgets what waits."""
    telegram.stage.say(telegram.ann, "a")
    await telegram.done("deleteWebhook", drop_pending_updates=True)
    assert await telegram.done("getUpdates") == []


@pytest.mark.parametrize("count", [3])
async def test_bots_have_queues_of_their_own(telegram: Telegram, count: int) -> None:
    """What is said to one bot is no update of another."""
    others = [telegram.stage.bot(f"other{number}_bot") for number in range(count)]
    telegram.stage.say(telegram.ann, "for the last", bot=others[-1]["id"])
    heard = [len(telegram.stage.pending(bot=bot)) for bot in (telegram.bot, *(other["id"] for other in others))]
    assert heard == [0, 0, 0, 1]
