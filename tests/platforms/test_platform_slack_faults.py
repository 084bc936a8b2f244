"""What goes wrong on purpose goes wrong as it does in life, as often as asked, and is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import httpx
import pytest
from aiohttp import web
from slack_sdk.errors import SlackApiError

from halo_kernel.testing import SteppedClock

from .slack import Fault, Pace, SlackServer
from .slack_echo import client


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    """A Slack in a hurry, with Kim and a channel."""
    async with SlackServer(pace=Pace(ack=0.2, retries=(0.0, 0.05))) as slack:
        slack.people.add_user("kim")
        slack.people.add_channel("general", ["kim", "halo"])
        yield slack


def texts(slack: SlackServer) -> list[str]:
    """Return what stands in the channel."""
    return [each["text"] for each in slack.people.read("general")]


@pytest.mark.parametrize(("kind", "stands"), [("lost_request", []), ("lost_answer", ["x"])])
async def test_lost_before_and_after(slack: SlackServer, kind: str, stands: list[str]) -> None:
    """A lost request did nothing, a lost answer did it; the client sees the same."""
    slack.fault("chat.postMessage", kind)
    with pytest.raises(aiohttp.ClientError):
        await client(slack).chat_postMessage(channel="#general", text="x")
    assert texts(slack) == stands


async def test_broken_and_late_and_refused(slack: SlackServer) -> None:
    """Broken JSON, a status, an error, 429 and a delay, each once, in the order that was asked for."""
    for kind in ("invalid_json", "status", "error", "ratelimited", "delay"):
        slack.fault("chat.postMessage", kind, seconds=0.05 if kind == "delay" else 7)
    sdk, seen = client(slack), []
    for number in range(4):
        with pytest.raises(SlackApiError) as caught:
            await sdk.chat_postMessage(channel="#general", text=str(number))
        seen.append(caught.value.response)
    await sdk.chat_postMessage(channel="#general", text="4")
    assert seen[1].status_code == 503
    assert seen[2]["error"] == "internal_error"
    assert (seen[3].status_code, seen[3].headers["Retry-After"], seen[3]["error"]) == (429, "7", "ratelimited")
    assert texts(slack) == ["0", "4"]
    assert [each.fault for each in slack.ledger.of("chat.postMessage")] == [
        "invalid_json",
        "status",
        "error",
        "ratelimited",
        "delay",
    ]


async def test_faults_come_after_and_as_often_as_asked(slack: SlackServer) -> None:
    """`after` calls go well, `count` fail, the rest goes well again; other methods are left alone."""
    fault = slack.fault("chat.postMessage", "error", after=1, count=2)
    sdk, failed = client(slack), []
    for number in range(5):
        await sdk.auth_test()
        try:
            await sdk.chat_postMessage(channel="#general", text=str(number))
        except SlackApiError:
            failed.append(number)
    assert (failed, fault.fired, fault.spent) == ([1, 2], 2, True)


def test_an_unknown_kind_is_refused() -> None:
    """A fault that nobody knows would never happen, so it cannot be asked for."""
    with pytest.raises(ValueError, match="kind: 'typo'"):
        Fault(on="*", kind="typo")


async def test_rate_limits_by_the_clock() -> None:
    """Turned on, a channel takes one message a second and a method its tier's calls a minute."""
    clock = SteppedClock()
    async with SlackServer(clock=clock) as slack:
        slack.people.add_user("kim")
        for name in ("one", "two"):
            slack.people.add_channel(name, ["kim", "halo"])
        slack.platform.rates.on = True
        sdk = client(slack)
        for channel in ("#one", "#two"):
            await sdk.chat_postMessage(channel=channel, text="x")
        with pytest.raises(SlackApiError) as caught:
            await sdk.chat_postMessage(channel="#one", text="x")
        assert (caught.value.response.status_code, caught.value.response.headers["Retry-After"]) == (429, "1")
        clock.advance(1)
        await sdk.chat_postMessage(channel="#one", text="x")
        for _ in range(20):
            await sdk.users_list()
        clock.advance(30)
        with pytest.raises(SlackApiError) as caught:
            await sdk.users_list()
        assert caught.value.response.headers["Retry-After"] == "30"
        clock.advance(30)
        await sdk.users_list()


_END = web.AppKey("end", asyncio.Event)
Behaviour = Callable[[web.Request], Awaitable[web.Response]]


@pytest.fixture
async def endpoint(slack: SlackServer) -> AsyncIterator[list[Behaviour]]:
    """An app that answers each post as the next of a list says, and 200 afterwards."""
    plan: list[Behaviour] = []

    async def answer(request: web.Request) -> web.Response:
        return await plan.pop(0)(request) if plan else web.Response()

    application = web.Application()
    application[_END] = asyncio.Event()
    application.add_routes([web.post("/events", answer)])
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slack.admin.set_app("halo", request_url=f"http://127.0.0.1:{runner.addresses[0][1]}/events")
    yield plan
    application[_END].set()
    await runner.cleanup()


async def _broken(request: web.Request) -> web.Response:
    return web.Response(status=500)


async def _slow(request: web.Request) -> web.Response:
    await request.app[_END].wait()
    return web.Response()


async def _gone(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def _enough(request: web.Request) -> web.Response:
    return web.Response(status=500, headers={"X-Slack-No-Retry": "1"})


@pytest.mark.parametrize(
    ("behaviour", "reason"), [(_broken, "http_error"), (_slow, "http_timeout"), (_gone, "connection_failed")]
)
async def test_posts_come_again_and_say_why(
    slack: SlackServer, endpoint: list[Behaviour], behaviour: Behaviour, reason: str
) -> None:
    """Unless 2xx comes in time the event is posted again with its number and the reason."""
    headers: list[tuple[str | None, str | None]] = []

    async def fine(request: web.Request) -> web.Response:
        headers.append((request.headers.get("X-Slack-Retry-Num"), request.headers.get("X-Slack-Retry-Reason")))
        return web.Response()

    endpoint += [behaviour, behaviour, fine]
    slack.people.say("kim", "general", "hello")
    (delivered,) = slack.ledger.deliveries
    await slack.wait(lambda: delivered.state != "pending")
    assert (delivered.state, headers) == ("acked", [("2", reason)])
    assert [each.outcome for each in delivered.attempts] == [reason, reason, "acked"]


async def test_an_app_may_ask_for_no_more(slack: SlackServer, endpoint: list[Behaviour]) -> None:
    """`X-Slack-No-Retry: 1` ends the attempts."""
    endpoint.append(_enough)
    slack.people.say("kim", "general", "hello")
    (delivered,) = slack.ledger.deliveries
    await slack.wait(lambda: delivered.state != "pending")
    assert (delivered.state, len(delivered.attempts)) == ("lost", 1)


async def test_a_response_url_takes_five_answers_for_half_an_hour() -> None:
    """Answers are for one person unless they say otherwise; the sixth, an empty and a late one are refused."""
    clock = SteppedClock()
    async with SlackServer(clock=clock) as slack, httpx.AsyncClient(trust_env=False) as http:
        kim = slack.people.add_user("kim")
        conversation = slack.platform.team.conversation(slack.people.add_channel("general", ["kim", "halo"]))
        urls = [slack.platform.triggers.response_url(slack.app, kim, conversation) for _ in range(2)]
        answers = [{"text": "one"}, {"text": "two", "response_type": "in_channel"}, {}, {"text": "x"}, {"text": "x"}]
        statuses = [(await http.post(urls[0], json=each)).status_code for each in [*answers, {"text": "six"}]]
        assert statuses == [200, 200, 400, 200, 200, 404]
        assert [each["ephemeral_to"] for each in slack.people.read("general")[:2]] == ["kim", None]
        clock.advance(1801)
        late = await http.post(urls[1], json={"text": "late"})
        assert (late.status_code, late.text) == (404, "expired_url")
        assert (await http.post(f"{slack.url}/response/T/none", json={})).status_code == 404
