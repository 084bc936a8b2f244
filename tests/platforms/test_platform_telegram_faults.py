"""The platform fails on purpose: which calls, how often, and what of them still happens."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from .conftest import Telegram
from .telegram import as_process, in_thread


async def test_a_lost_answer_was_a_message(telegram: Telegram) -> None:
    """The message is there, the bot never learns of it."""
    telegram.stage.fault("lost_answer", method="sendMessage")
    with pytest.raises(httpx.RemoteProtocolError):
        await telegram.call("sendMessage", chat_id=telegram.ann, text="x")
    await telegram.done("sendMessage", chat_id=telegram.ann, text="x")
    assert telegram.stage.texts(telegram.ann) == ["x", "x"]
    assert [each["outcome"] for each in telegram.stage.calls("sendMessage")] == ["lost_answer: ok", "ok"]


async def test_a_lost_request_was_none(telegram: Telegram) -> None:
    """Nothing happens before the connection breaks."""
    telegram.stage.fault("lost_request", method="sendMessage")
    with pytest.raises(httpx.RemoteProtocolError):
        await telegram.call("sendMessage", chat_id=telegram.ann, text="x")
    assert telegram.stage.texts(telegram.ann) == []
    assert telegram.stage.calls()[-1]["outcome"] == "lost_request: not done"


async def test_half_an_answer_breaks_off(telegram: Telegram) -> None:
    """The effect is whole, the answer is not."""
    telegram.stage.fault("half_answer")
    with pytest.raises(httpx.HTTPError):
        await telegram.call("sendMessage", chat_id=telegram.ann, text="x")
    assert telegram.stage.texts(telegram.ann) == ["x"]


async def test_an_answer_may_be_no_json(telegram: Telegram) -> None:
    """A whole answer of 200 need not be JSON."""
    telegram.stage.fault("invalid_json")
    with pytest.raises(ValueError):
        await telegram.call("sendMessage", chat_id=telegram.ann, text="x")
    assert telegram.stage.texts(telegram.ann) == ["x"]


@pytest.mark.parametrize(
    ("kind", "options", "code", "says"),
    [
        ("flood", {"retry_after": 7}, 429, "Too Many Requests: retry after 7"),
        ("error", {}, 500, "Internal Server Error"),
        ("error", {"status": 502, "description": "Bad Gateway"}, 502, "Bad Gateway"),
        ("error", {"status": 400, "description": "Bad Request: PEER_ID_INVALID"}, 400, "Bad Request: PEER_ID_INVALID"),
        ("conflict", {}, 409, "Conflict: terminated by other getUpdates request; make sure that only one bot"),
        ("unauthorized", {}, 401, "Unauthorized"),
    ],
)
async def test_a_call_is_refused(telegram: Telegram, kind: str, options: dict[str, Any], code: int, says: str) -> None:
    """A call may be refused with any code, and nothing happens."""
    telegram.stage.fault(kind, **options)
    said = await telegram.call("sendMessage", chat_id=telegram.ann, text="x")
    assert said["error_code"] == code
    assert said["description"].startswith(says)
    assert telegram.stage.texts(telegram.ann) == []


async def test_a_gateway_answers_with_a_page(telegram: Telegram) -> None:
    """A proxy's refusal is HTML."""
    telegram.stage.fault("gateway", status=504)
    response = await telegram.client.get(f"/bot{telegram.token}/getMe")
    assert (response.status_code, response.headers["content-type"]) == (504, "text/html")
    await telegram.done("getMe")


async def test_a_flood_wait_is_in_the_header_too(telegram: Telegram) -> None:
    """`Retry-After` says the same as the parameters."""
    telegram.stage.fault("flood", retry_after=3)
    response = await telegram.client.get(f"/bot{telegram.token}/getMe")
    assert (response.headers["retry-after"], response.json()["parameters"]) == ("3", {"retry_after": 3})


async def test_a_fault_meets_its_method_so_many_times(telegram: Telegram) -> None:
    """A fault leaves out the calls of other methods and the first few, and is counted."""
    number = telegram.stage.fault("error", method="getme", skip=1, times=2)
    seen = []
    for _ in range(4):
        await telegram.done("getWebhookInfo")
        seen.append((await telegram.call("getMe"))["ok"])
    assert seen == [True, False, False, True]
    (fault,) = telegram.stage.faults()
    assert (fault["id"], fault["fired"]) == (number, 2)


async def test_a_fault_lasts_by_the_platforms_clock(telegram: Telegram) -> None:
    """A conflict of an hour is over when the platform's hour is."""
    telegram.stage.fault("conflict", method="getUpdates", lasting=3600)
    for _ in range(3):
        assert (await telegram.call("getUpdates"))["error_code"] == 409
    telegram.stage.advance(3600)
    assert await telegram.done("getUpdates") == []


async def test_faults_end(telegram: Telegram) -> None:
    """A test ends one fault or all."""
    first = telegram.stage.fault("error", times=None)
    telegram.stage.fault("unauthorized", times=None)
    assert (await telegram.call("getMe"))["error_code"] == 500
    telegram.stage.end_faults(first)
    assert (await telegram.call("getMe"))["error_code"] == 401
    telegram.stage.end_faults()
    await telegram.done("getMe")


async def test_a_fault_is_for_one_bot_if_it_says_so(telegram: Telegram) -> None:
    """Other bots do not meet it."""
    other = telegram.stage.bot("other_bot")
    telegram.stage.fault("error", bot=other["id"])
    await telegram.done("getMe")
    assert (await telegram.client.get(f"/bot{other['token']}/getMe")).status_code == 500


@pytest.mark.parametrize("kind", ["delay", "late_answer"])
async def test_an_answer_comes_late(telegram: Telegram, kind: str) -> None:
    """With `delay` the effect waits too, with `late_answer` only the answer does."""
    telegram.stage.fault(kind, method="sendMessage", seconds=0.5)
    sending = asyncio.ensure_future(telegram.call("sendMessage", chat_id=telegram.ann, text="x"))
    await telegram.server.world.until(lambda: bool(telegram.stage.calls("sendMessage")), 40)
    await asyncio.sleep(0)
    assert telegram.stage.texts(telegram.ann) == (["x"] if kind == "late_answer" else [])
    assert (await sending)["ok"]
    assert telegram.stage.texts(telegram.ann) == ["x"]


async def test_a_poll_breaks_off_while_it_waits(telegram: Telegram) -> None:
    """A waiting poll loses its connection; what comes then is there for the next."""
    telegram.stage.fault("cut_poll", method="getUpdates")
    with pytest.raises(httpx.RemoteProtocolError):
        await telegram.call("getUpdates", timeout=30)
    poll = asyncio.ensure_future(telegram.call("getUpdates", timeout=30))
    await telegram.server.world.until(telegram.stage.polling, 40)
    assert telegram.stage.hang_up()
    with pytest.raises(httpx.RemoteProtocolError):
        await poll
    assert not telegram.stage.hang_up()
    telegram.stage.say(telegram.ann, "hello")
    assert len(await telegram.done("getUpdates")) == 1


async def test_a_download_fails_in_the_middle(telegram: Telegram) -> None:
    """The method `file` stands for what is fetched by its path."""
    telegram.stage.send(telegram.ann, "document", b"x" * 1000)
    (update,) = await telegram.done("getUpdates")
    file = await telegram.done("getFile", file_id=update["message"]["document"]["file_id"])
    path = f"/file/bot{telegram.token}/{file['file_path']}"
    for kind in ("half_answer", "lost_request"):
        telegram.stage.fault(kind, method="file")
        with pytest.raises(httpx.RemoteProtocolError):
            await telegram.client.get(path)
    telegram.stage.fault("error", method="file")
    assert (await telegram.client.get(path)).status_code == 500
    assert (await telegram.client.get(path)).content == b"x" * 1000
    outcomes = [each["outcome"] for each in telegram.stage.calls("file")]
    assert outcomes == ["half_answer: ok", "lost_request: not done", "error: 500 Internal Server Error", "ok"]


async def test_an_unknown_kind_is_named(telegram: Telegram) -> None:
    """A fault that does not exist is refused with those that do."""
    with pytest.raises(ValueError, match="no fault is called 'gremlins'; there are lost_request"):
        telegram.stage.fault("gremlins")


async def test_updates_of_unknown_kinds_are_delivered(telegram: Telegram) -> None:
    """A test may send what no bot knows yet."""
    telegram.stage.inject("telepathy", {"thought": 1})
    (update,) = await telegram.done("getUpdates")
    assert update["telepathy"] == {"thought": 1}


def test_a_platform_in_a_process_is_played_from_outside() -> None:
    """Every verb of the stage works over HTTP, with bytes, and waiting needs no sleep."""
    with as_process() as telegram:
        stage = telegram.stage
        bot, ann = stage.bot(), stage.user("Ann")
        stage.send(ann, "document", b"\x00\xff", filename="a.bin")
        base = f"{telegram.url}/bot{bot['token']}"
        (update,) = httpx.get(f"{base}/getUpdates").json()["result"]
        assert stage.content(update["message"]["document"]["file_id"]) == b"\x00\xff"
        stage.fault("flood", method="sendMessage", retry_after=2)
        sent = [httpx.post(f"{base}/sendMessage", data={"chat_id": str(ann), "text": "x"}) for _ in range(2)]
        assert [each.status_code for each in sent] == [429, 200]
        assert telegram.until(lambda stage: stage.texts(ann)) == ["x"]
        with pytest.raises(ValueError, match="user"):
            stage.say(1, "nobody")
        with pytest.raises(TimeoutError):
            telegram.until(lambda stage: stage.texts(ann) == ["y"], timeout=0.1)


def test_a_platform_in_a_thread_serves_tests_without_a_loop() -> None:
    """A test without a loop has the same stage."""
    with in_thread() as telegram:
        bot, ann = telegram.stage.bot(), telegram.stage.user("Ann")
        poll = f"{telegram.url}/bot{bot['token']}/getUpdates"
        telegram.stage.say(ann, "hello")
        assert httpx.get(poll).json()["result"][0]["message"]["text"] == "hello"
        listed = httpx.get(f"{telegram.url}/control").json()["verbs"]
        assert listed["say"] == "Let a person write; return the message's number."
        assert httpx.post(f"{telegram.url}/control/no_such_verb").status_code == 404
        wrong = httpx.post(f"{telegram.url}/control/say", json={"user": ann, "txt": "x"})
        assert (wrong.status_code, "txt" in wrong.json()["error"]) == (400, True)
