"""The platform fails: what is owed arrives once or is shown as not known, and nobody is deaf for long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.platforms.telegram import Stage, TelegramServer

from halo_kernel import Delivery, Kernel, Owed, SystemClock
from halo_kernel.testing import Answer, Pieces, Workbench, until

from .conftest import Serve

QUIET = 0.4


async def settled(kernel: Kernel, halo: Workbench, count: int = 1) -> list[Delivery]:
    """Return all deliveries, newest first, as soon as they are `count` and settled."""
    workspace = (await kernel.host.workspaces.open(halo.folder)).id
    outbox = kernel.host.outbox

    async def rests() -> bool:
        some = await outbox.list(workspace=workspace)
        return len(some) >= count and not await outbox.list(workspace=workspace, unsettled=True)

    await until(rests, 15, what="the end of all deliveries")
    return list(await outbox.list(workspace=workspace))


def states(delivery: Delivery) -> list[str]:
    """Return the states of its parts."""
    return [part.state for part in delivery.parts]


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ({"kind": "lost_answer"}, 1),
        ({"kind": "half_answer"}, 1),
        ({"kind": "invalid_json"}, 1),
        ({"kind": "lost_request"}, 0),
        ({"kind": "gateway", "status": 502}, 0),
        ({"kind": "error", "status": 500}, 0),
    ],
)
async def test_what_nobody_knows_is_uncertain_and_not_sent_again(
    stage: Stage, serve: Serve, halo: Workbench, fault: dict[str, Any], shown: int
) -> None:
    """An answer of the platform that is lost leaves its part uncertain: people never see it twice."""
    kernel = await serve()
    ann = stage.user("Ann")
    stage.fault(method="sendMessage", **fault)
    stage.say(ann, "hello")
    (delivery,) = await settled(kernel, halo)
    assert states(delivery) == ["uncertain"]
    await asyncio.sleep(QUIET)
    assert len(stage.texts(ann)) == shown
    assert len(stage.calls("sendMessage")) == 1


async def test_a_flood_wait_is_kept(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """After a 429 the part waits as long as it says, through a restart too, and is sent once."""
    kernel = await serve()
    ann = stage.user("Ann")
    stage.fault("flood", method="sendMessage", retry_after=2)
    stage.say(ann, "hello")
    await until(lambda: stage.calls("sendMessage"), what="the first attempt")
    begun = asyncio.get_running_loop().time()
    await asyncio.sleep(0.2)
    kernel = await serve()
    (delivery,) = await settled(kernel, halo)
    assert states(delivery) == ["sent"]
    assert asyncio.get_running_loop().time() - begun > 1.8
    assert stage.texts(ann) == ["You said: hello"]


async def test_a_bot_that_is_blocked_is_a_reason(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """A refusal for good is kept in the platform's words, after one attempt."""
    kernel = await serve()
    ann = stage.user("Ann", started=[0])
    stage.say(ann, "hello")
    await until(lambda: stage.texts(ann), what="an answer")
    stage.block(ann)
    workspace = (await kernel.host.workspaces.open(halo.folder)).id
    owed = Owed(key="news:1", dispatcher="telegram", target=f"telegram:bot:{ann}", text="News")
    await kernel.host.outbox.owe(owed, workspace=workspace)
    delivery = (await settled(kernel, halo, 2))[0]
    assert states(delivery) == ["failed"]
    assert "blocked by the user" in delivery.parts[0].error


async def test_a_topic_that_is_gone_falls_back_to_its_chat(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """Where the topic of an answer is gone, the answer comes to the chat, once."""
    kernel = await serve()
    ann = stage.user("Ann")
    forum = stage.group("Lamps", [ann], forum=True)
    stage.say(ann, "Hello, all", chat=forum)
    topic = stage.topic(forum, "red")
    workspace = (await kernel.host.workspaces.open(halo.folder)).id
    stage.delete_topic(forum, topic)
    owed = Owed(key="news:1", dispatcher="telegram", target=f"telegram:bot:{forum}:{topic}", text="News")
    await kernel.host.outbox.owe(owed, workspace=workspace)
    (delivery,) = await settled(kernel, halo)
    assert states(delivery) == ["sent"]
    assert stage.texts(chat=forum, thread=0) == ["News"]


async def test_an_answer_follows_a_group_that_moved(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """What was owed to a group's former number goes to the one that the platform names."""
    kernel = await serve()
    ann = stage.user("Ann")
    group = stage.group("Lamps", [ann])
    workspace = (await kernel.host.workspaces.open(halo.folder)).id
    stage.fault("conflict", method="getUpdates", times=None)  # it has not heard of the move
    await asyncio.sleep(0.1)
    stage.hang_up()
    moved = stage.migrate(group)
    for number in (1, 2):
        owed = Owed(key=f"news:{number}", dispatcher="telegram", target=f"telegram:bot:{group}", text=f"News {number}")
        await kernel.host.outbox.owe(owed, workspace=workspace)
    await settled(kernel, halo, 2)
    assert stage.texts(chat=moved) == ["News 1", "News 2"]
    assert len(stage.calls("sendMessage")) == 3


async def test_markup_that_is_refused_goes_as_plain_text(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """What the platform cannot parse is sent again without marks, as the same part."""
    halo.model.then(Answer("**bold** and [a link](https://example.org)"))
    kernel = await serve()
    ann = stage.user("Ann")
    why = "Bad Request: can't parse entities: Unsupported start tag"
    stage.fault("error", method="sendMessage", status=400, description=why)
    stage.say(ann, "hello")
    (delivery,) = await settled(kernel, halo)
    assert states(delivery) == ["sent"]
    assert stage.texts(ann) == ["bold and a link (https://example.org)"]


async def ready(kernel: Kernel) -> str:
    """Return why the account is not ready, '' if it is."""
    found = await kernel.host.accounts.readiness("telegram", "bot")
    assert found.ready == (found.reason == "")
    return found.reason


async def becomes(kernel: Kernel, said: str) -> None:
    """Return when the account's trouble has these words, or none at all."""

    async def is_so() -> bool:
        reason = await ready(kernel)
        return said in reason if said else not reason

    await until(is_so, 10, what=f"the account says {said!r}")


async def test_a_conflict_is_told_and_ends(stage: Stage, serve: Serve) -> None:
    """While another program receives with the token the account says so; later it hears what was said meanwhile."""
    kernel = await serve()
    await becomes(kernel, "")
    ann = stage.user("Ann")
    fault = stage.fault("conflict", method="getUpdates", times=None)
    stage.hang_up()
    await becomes(kernel, "another program receives")
    stage.say(ann, "hello")
    stage.end_faults(fault)
    await becomes(kernel, "")
    await until(lambda: stage.texts(ann) == ["You said: hello"], what="the answer")


async def test_a_token_that_is_revoked_is_told(stage: Stage, serve: Serve) -> None:
    """A revoked token makes the account not ready, with what to do; a valid one makes it ready again."""
    kernel = await serve()
    await becomes(kernel, "")
    stage.revoke()
    await becomes(kernel, "not valid any more")
    stage.revoke(revoked=False)
    await becomes(kernel, "")


async def test_a_silent_platform_is_told_within_two_minutes(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """An account is ready by the age of its last answer alone, and to ask for it makes no call."""
    kernel = await serve()
    await becomes(kernel, "")
    await until(stage.polling, what="a poll that waits")
    calls = len(stage.calls())
    door = kernel.accounts.door((await kernel.host.accounts.list("telegram"))[0])
    assert door.heard_at is not None
    door.heard_at -= 111
    assert "said nothing" in await ready(kernel)
    assert len(stage.calls()) == calls


async def test_a_conflict_for_an_hour_is_no_storm(stage: Stage, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour of conflicts is asked about ever more slowly, at most once a minute in the end."""
    waits: list[float] = []

    async def sleep(self: SystemClock, seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0.001 if sum(waits) < 3600 else 3600)

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    stage.fault("conflict", method="getUpdates", times=None)
    await serve()
    await until(lambda: sum(waits) >= 3600, 20, what="an hour")
    assert len(stage.calls("getUpdates")) < 100
    assert max(waits) == 60


async def test_a_poll_that_breaks_loses_nothing(stage: Stage, serve: Serve) -> None:
    """Whatever becomes of polls, each message is answered once."""
    await serve()
    ann = stage.user("Ann")
    for number, kind in enumerate(("cut_poll", "lost_answer", "half_answer", "invalid_json", "gateway")):
        stage.fault(kind, method="getUpdates", status=502)
        stage.say(ann, f"message {number}")
        await until(lambda: len(stage.texts(ann)) > number, 10, what=f"an answer after {kind}")  # noqa: B023
    await asyncio.sleep(QUIET)
    assert stage.texts(ann) == [f"You said: message {number}" for number in range(5)]


async def test_a_hundred_old_updates_make_no_new_turn(
    stage: Stage, serve: Serve, halo: Workbench, platform_server: TelegramServer
) -> None:
    """Updates that come again, as of a platform that forgot what was confirmed, are known by their messages."""
    await serve()
    ann = stage.user("Ann")
    for number in range(20):
        stage.say(ann, f"/start {number}")
    await until(lambda: len(stage.texts(ann)) == 20, 20, what="the answers")
    await serve()
    for update in stage.updates():
        stage.repeat(update["update_id"])
    await until(lambda: not platform_server.world.bot(0).updates.again, what="the repeats")
    stage.say(ann, "new")
    await until(lambda: "You said: new" in stage.texts(ann), what="the answer")
    assert len(stage.texts(ann)) == 21


async def test_a_chat_that_is_full_keeps_no_other_back(stage: Stage, serve: Serve, halo: Workbench) -> None:
    """Where too much waits in one chat, its people are told, and others are answered as ever."""
    halo.model.then(Pieces(["slow", "ly"], delay=2.0))
    await serve(env={"HALO_SESSION_MAX_QUEUE_SIZE": "1"})
    ann, bob = stage.user("Ann"), stage.user("Bob")
    stage.say(ann, "one")
    await until(lambda: len(halo.model.requests) == 1, what="the first turn")
    for text in ("two", "three"):
        stage.say(ann, text)
    stage.say(bob, "hello")
    await until(lambda: stage.texts(bob) == ["You said: hello"], what="an answer to another")
    await until(lambda: any("Too much is waiting" in text for text in stage.texts(ann)), what="what Ann is told")
    await until(lambda: not stage.pending(), what="the end of the queue")
