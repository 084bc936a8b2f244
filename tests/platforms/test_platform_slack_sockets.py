"""Socket Mode: one socket an envelope, again when nobody acknowledged, and clients that come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from halo_kernel.testing import SteppedClock

from .slack import Pace, SlackServer
from .slack.ledger import Delivered
from .slack_echo import PING, client, echo_app, over_socket

CALM = Pace(retries=(0.0, 0.2, 0.4), warning=0.1)
HASTY = Pace(ack=0.2, retries=(0.0, 0.05, 0.1))


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    """A Slack with Kim, which waits for an ack as long as Slack does."""
    async with SlackServer(pace=CALM) as slack:
        slack.people.add_user("kim")
        yield slack


@pytest.fixture
async def hasty() -> AsyncIterator[SlackServer]:
    """A Slack with Kim, for apps that do not acknowledge."""
    async with SlackServer(pace=HASTY) as slack:
        slack.people.add_user("kim")
        yield slack


async def address(slack: SlackServer) -> str:
    """Ask for the address of a socket."""
    return str(
        (await AsyncWebClient(base_url=slack.api_url).apps_connections_open(app_token=slack.app.app_token))["url"]
    )


@asynccontextmanager
async def socket(slack: SlackServer) -> AsyncIterator[ClientConnection]:
    """Open a socket by hand and read its hello."""
    async with connect(await address(slack), close_timeout=0.1) as connection:
        assert (await heard(connection))["type"] == "hello"
        yield connection


async def heard(connection: ClientConnection) -> dict[str, Any]:
    """Return the next message."""
    message = json.loads(await asyncio.wait_for(connection.recv(), 5))
    assert isinstance(message, dict)
    return message


async def ack(connection: ClientConnection, envelope: dict[str, Any], **facts: Any) -> None:
    """Acknowledge an envelope."""
    await connection.send(json.dumps({"envelope_id": envelope["envelope_id"], **facts}))


def say(slack: SlackServer, text: str = "hello") -> Delivered:
    """Let Kim say something to the bot; return its delivery."""
    slack.people.say("kim", slack.people.direct("kim", "halo"), text)
    return slack.ledger.deliveries[-1]


async def settled(slack: SlackServer, delivered: Delivered) -> str:
    """Return what became of a delivery."""
    await slack.wait(lambda: delivered.state != "pending")
    return delivered.state


async def unacked(slack: SlackServer, times: int) -> None:
    """Return once a deadline has passed so often."""
    await slack.wait(lambda: slack.ledger.counts["unacked:timeout"] == times)


async def test_an_envelope_is_acknowledged(slack: SlackServer) -> None:
    """Hello tells the app and how many sockets there are; an event comes in an envelope and is done once acked."""
    async with connect(await address(slack)) as one:
        hello = await heard(one)
        assert (hello["num_connections"], hello["connection_info"]) == (1, {"app_id": slack.app.id})
        delivered = say(slack)
        envelope = await heard(one)
        assert envelope["type"] == "events_api"
        assert (envelope["retry_attempt"], envelope["retry_reason"]) == (0, "")
        event = envelope["payload"]
        assert (event["type"], event["team_id"], event["api_app_id"]) == ("event_callback", "T0BIRDS01", slack.app.id)
        assert event["authorizations"][0]["user_id"] == slack.app.bot_user
        await ack(one, envelope)
        assert await settled(slack, delivered) == "acked"


async def test_each_envelope_goes_to_one_socket(slack: SlackServer) -> None:
    """With two sockets, ten envelopes arrive once each, some on either."""
    async with socket(slack) as one, socket(slack) as two:
        for number in range(10):
            say(slack, str(number))
        texts = [[(await heard(each))["payload"]["event"]["text"] for _ in range(5)] for each in (one, two)]
        assert sorted(texts[0] + texts[1]) == [str(number) for number in range(10)]


async def test_unacknowledged_envelopes_come_again(hasty: SlackServer) -> None:
    """Nobody acks: the event comes again with its `event_id`, a new envelope, and why; then it is given up."""
    async with socket(hasty) as one:
        delivered = say(hasty)
        envelopes = [await heard(one) for _ in range(4)]
        assert [(each["retry_attempt"], each["retry_reason"]) for each in envelopes] == [
            (0, ""),
            (1, "timeout"),
            (2, "timeout"),
            (3, "timeout"),
        ]
        assert len({each["payload"]["event_id"] for each in envelopes}) == 1
        assert len({each["envelope_id"] for each in envelopes}) == 4
        assert await settled(hasty, delivered) == "lost"
        await ack(one, envelopes[0])
        await hasty.wait(lambda: hasty.ledger.counts["acks:unknown"] + hasty.ledger.counts["acks:late"] == 1)


async def test_an_envelope_comes_again_on_another_socket(hasty: SlackServer) -> None:
    """What one socket did not acknowledge goes to the other one."""
    async with socket(hasty) as one, socket(hasty) as two:
        delivered = say(hasty)
        both = await asyncio.gather(heard(one), heard(two))
        assert both[0]["payload"]["event_id"] == both[1]["payload"]["event_id"]
        assert {each["retry_attempt"] for each in both} == {0, 1}
        assert len({each.via for each in delivered.attempts[:2]}) == 2


async def test_a_socket_that_ends_gives_its_envelopes_back(slack: SlackServer) -> None:
    """When a socket ends before its ack, the envelope goes to another socket at once."""
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(socket(slack)) for _ in range(2)]
        delivered = say(slack)
        receiving = [asyncio.ensure_future(heard(each)) for each in sockets]
        done, (waiting,) = await asyncio.wait(receiving, return_when=asyncio.FIRST_COMPLETED)
        await sockets[receiving.index(done.pop())].close()
        again = await waiting
        assert (again["retry_attempt"], again["retry_reason"]) == (1, "connection_failed")
        await ack(sockets[receiving.index(waiting)], again)
        assert await settled(slack, delivered) == "acked"


async def test_deadlines_are_slacks() -> None:
    """By the clock an app has 3 s, and what it lets pass comes at once, after a minute and after five."""
    clock = SteppedClock()
    async with SlackServer(clock=clock) as slow:
        slow.people.add_user("kim")
        async with socket(slow) as one:
            delivered = say(slow)
            for pause, number in ((0, 0), (0, 1), (60, 2), (300, 3)):
                clock.advance(pause)
                assert (await heard(one))["retry_attempt"] == number
                clock.advance(2.9)
                await asyncio.sleep(0)
                assert len(delivered.attempts) == number + 1
                clock.advance(0.2)
                await unacked(slow, number + 1)
            assert await settled(slow, delivered) == "lost"
    began = [(each.at - delivered.attempts[0].at) / 1000 for each in delivered.attempts]
    assert began == pytest.approx([0, 3.1, 66.2, 369.3])


async def test_addresses_open_one_socket_soon() -> None:
    """An address works once and for half a minute; an invented one never."""
    clock = SteppedClock()
    async with SlackServer(clock=clock) as slack:
        used, old = await address(slack), await address(slack)
        async with connect(used):
            clock.advance(31)
            for refused in (used, old, used.replace("ticket=", "ticket=x")):
                with pytest.raises(InvalidStatus):
                    await connect(refused)


async def test_a_revoked_app_token_opens_nothing(slack: SlackServer) -> None:
    """Without its app token an app gets no address; what is open stays."""
    async with socket(slack) as one:
        slack.admin.revoke_app_token("halo")
        with pytest.raises(SlackApiError, match="token_revoked"):
            await address(slack)
        await (await one.ping())


async def test_ten_sockets_at_most(slack: SlackServer) -> None:
    """The eleventh socket of an app is told that there are too many."""
    async with AsyncExitStack() as stack:
        for _ in range(10):
            await stack.enter_async_context(socket(slack))
        async with connect(await address(slack)) as eleventh:
            assert (await heard(eleventh))["reason"] == "too_many_websockets"
        assert slack.ledger.counts["sockets:most"] == 10


async def test_pings_go_both_ways() -> None:
    """The server answers pings and sends its own; a silent one does neither."""
    async with SlackServer(pace=Pace(ping=0.01)) as slack:
        slack.people.add_user("kim")
        async with socket(slack) as one:
            await (await one.ping())
            await slack.wait(lambda: slack.platform.sockets.open[0].pings == 1)
            slack.platform.sockets.silence()
            say(slack)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(await one.ping(), 0.1)


async def test_sockets_can_be_mute_from_their_beginning(hasty: SlackServer) -> None:
    """A server that takes sockets and says nothing, not even hello, gets its envelopes back unacknowledged."""
    hasty.platform.sockets.mute = True
    async with connect(await address(hasty), close_timeout=0.1) as one:
        delivered = say(hasty)
        assert await settled(hasty, delivered) == "lost"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(one.recv(), 0.05)


async def test_a_frame_can_be_cut(slack: SlackServer) -> None:
    """A socket that ends in the middle of an envelope gives it to the next one."""
    slack.fault("message", "cut")
    async with socket(slack) as one, AsyncExitStack() as later:
        delivered = say(slack)
        with pytest.raises(ConnectionClosed):
            await heard(one)
        two = await later.enter_async_context(socket(slack))
        envelope = await heard(two)
        await ack(two, envelope)
        assert await settled(slack, delivered) == "acked"


async def test_duplicates_have_one_event_id(slack: SlackServer) -> None:
    """A duplicated event comes in two envelopes with one `event_id`."""
    slack.fault("message", "duplicate")
    async with socket(slack) as one:
        delivered = say(slack)
        both = [await heard(one) for _ in range(2)]
        assert both[0]["payload"]["event_id"] == both[1]["payload"]["event_id"]
        assert both[0]["envelope_id"] != both[1]["envelope_id"]
        for each in both:
            await ack(one, each)
        assert await settled(slack, delivered) == "acked"
    assert [(each.number, each.outcome) for each in delivered.attempts] == [(0, "acked"), (0, "acked")]


async def test_slacks_client_acknowledges(slack: SlackServer) -> None:
    """slack-sdk's own Socket Mode client hears events and answers a command with a payload."""
    told: list[str] = []
    slack.app.commands.add("/birds")

    async def listen(self: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        told.append(request.type)
        await self.send_socket_mode_response({"envelope_id": request.envelope_id, "payload": {"text": "two herons"}})

    sdk = SocketModeClient(app_token=slack.app.app_token, web_client=client(slack), ping_interval=PING)
    sdk.socket_mode_request_listeners.append(listen)
    await sdk.connect()
    try:
        dm = slack.people.direct("kim", "halo")
        assert await settled(slack, say(slack)) == "acked"
        delivered = await slack.people.command("kim", dm, "/birds", "today")
        assert delivered is not None
        assert (told, delivered.state) == (["events_api", "slash_commands"], "acked")
        assert [each["shown"] for each in slack.people.read(dm)] == ["hello", "two herons"]
        await slack.wait(lambda: slack.platform.sockets.open[0].pings > 1)
    finally:
        await sdk.close()
        await sdk.aiohttp_client_session.close()


@pytest.mark.parametrize("end", ["warning", "refresh_requested", "link_disabled", "drop", "silence", "refresh"])
async def test_bolt_comes_back(slack: SlackServer, end: str) -> None:
    """After every kind of end the app opens a new socket, has one in the end, and nobody's message is lost."""
    dm = slack.people.direct("kim", "halo")
    async with over_socket(slack, echo_app(slack)):
        former = slack.platform.sockets.open[0]
        sockets = slack.platform.sockets
        if end in ("drop", "silence"):
            getattr(sockets, end)()
        elif end == "refresh":
            await sockets.refresh()
        else:
            sockets.disconnect(end)
        await slack.wait(lambda: [each for each in sockets.open if each is not former])
        slack.people.say("kim", dm, "still there?")
        (answer,) = await slack.answers(dm)
        assert answer["shown"] == "echo: still there?"
        await slack.connected(1)


async def test_bolt_waits_for_a_server_that_refuses(slack: SlackServer) -> None:
    """While `apps.connections.open` fails, the app asks again; then it hears what waited."""
    slack.fault("apps.connections.open", "error", count=2)
    slack.fault("apps.connections.open", "status", status=500)
    async with over_socket(slack, echo_app(slack)):
        assert [each.error or each.status for each in slack.ledger.of("apps.connections.open")] == [
            "internal_error",
            "internal_error",
            500,
            200,
        ]


async def test_a_command_without_an_app_fails_visibly(hasty: SlackServer) -> None:
    """Whoever uses a command that nobody acknowledges is told so; an unknown one is told at once."""
    hasty.app.commands.add("/birds")
    dm = hasty.people.direct("kim", "halo")
    await hasty.people.command("kim", dm, "/birds")
    async with socket(hasty):
        await hasty.people.command("kim", dm, "/birds")
    assert await hasty.people.command("kim", dm, "/fish") is None
    assert [each["shown"] for each in hasty.people.read(dm)] == [
        '/birds failed with the error "dispatch_failed"',
        '/birds failed with the error "operation_timeout"',
        "/fish is not a valid command.",
    ]
