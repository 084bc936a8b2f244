"""slack-bolt runs unchanged on the platform, in Socket Mode and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .slack import Pace, SlackServer
from .slack_echo import echo_app, over_http, over_socket

FILE = bytes(range(256)) * 40


@pytest.fixture(params=["socket", "http"])
async def slack(request: pytest.FixtureRequest) -> AsyncIterator[SlackServer]:
    """A Slack with Kim, Lou and the echo app, which hears over a socket or over HTTP."""
    async with SlackServer(pace=Pace(retries=(0.0, 0.2, 0.4))) as slack:
        for name in ("kim", "lou"):
            slack.people.add_user(name)
        app = echo_app(slack)
        async with over_socket(slack, app) if request.param == "socket" else over_http(slack, app):
            yield slack


async def test_a_direct_message_is_answered(slack: SlackServer) -> None:
    """What is said in a DM is answered there once, and the person sees what the app wrote."""
    dm = slack.people.direct("kim", "halo")
    slack.people.say("kim", dm, "1 < 2 & so on")
    (answer,) = await slack.answers(dm)
    assert answer["text"] == "echo: 1 &lt; 2 &amp; so on"
    assert answer["shown"] == "echo: 1 < 2 & so on"
    assert answer["thread"] is None


async def test_a_mention_is_told_twice_and_answered_in_its_thread(slack: SlackServer) -> None:
    """A mention arrives as `message` and as `app_mention` with the same ts; the answer is in its thread."""
    channel = slack.people.add_channel("general", ["kim", "lou", "halo"])
    ts = slack.people.say("kim", channel, "@halo hello")
    (answer,) = await slack.answers(channel, thread=ts)
    assert answer["shown"] == "echo: @halo hello"
    told = [each.payload["event"] for each in slack.ledger.deliveries if each.payload["event"]["ts"] == ts]
    assert [(each["type"], each["ts"]) for each in told] == [("message", ts), ("app_mention", ts)]
    assert slack.people.answers(channel) == []


async def test_threads_stay_apart(slack: SlackServer) -> None:
    """Answers to mentions in two threads stand in the thread of each."""
    channel = slack.people.add_channel("general", ["kim", "lou", "halo"])
    roots = [slack.people.say(name, channel, f"about {name}") for name in ("kim", "lou")]
    for root, name in zip(roots, ("kim", "lou"), strict=True):
        slack.people.say(name, channel, f"@halo from {name}", thread=root)
    for root, name in zip(roots, ("kim", "lou"), strict=True):
        (answer,) = await slack.answers(channel, thread=root)
        assert answer["shown"] == f"echo: @halo from {name}"


async def test_twenty_threads_of_ten_people(slack: SlackServer) -> None:
    """Twenty threads that go on at once get each answer where it belongs, one for each question."""
    people = [f"bird{number}" for number in range(10)]
    for name in people:
        slack.people.add_user(name)
    channel = slack.people.add_channel("general", [*people, "halo"])
    roots = [slack.people.say(people[number % 10], channel, f"thread {number}") for number in range(20)]
    for turn in range(2):
        for number, root in enumerate(roots):
            slack.people.say(people[(number + turn) % 10], channel, f"@halo {number}.{turn}", thread=root)
    for number, root in enumerate(roots):
        answers = await slack.answers(channel, thread=root, count=2)
        assert sorted(each["shown"] for each in answers) == [f"echo: @halo {number}.{turn}" for turn in range(2)]


async def test_a_command_is_answered_twice(slack: SlackServer) -> None:
    """The acknowledgement of a command is seen by its user alone, what goes to its response URL by everybody."""
    channel = slack.people.add_channel("general", ["kim", "halo"])
    delivered = await slack.people.command("kim", channel, "/echo", "this")
    assert delivered is not None
    assert delivered.state == "acked"
    await slack.answers(channel)
    seen = {each["shown"]: each["ephemeral_to"] for each in slack.people.read(channel)}
    assert seen == {"heard this": "kim", "told this": None}


async def test_a_button_replaces_its_message(slack: SlackServer) -> None:
    """A press arrives with its value, and the answer takes the place of the message."""
    dm = slack.people.direct("kim", "halo")
    slack.people.say("kim", dm, "go?")
    (answer,) = await slack.answers(dm)
    delivered = await slack.people.press("kim", dm, answer["ts"], "yes")
    assert delivered.state == "acked"
    await slack.wait(lambda: slack.people.answers(dm)[0]["edited"])
    (replaced,) = slack.people.answers(dm)
    assert (replaced["shown"], replaced["versions"], replaced["buttons"]) == ("chosen 42", ["echo: go?"], [])


async def test_a_file_goes_there_and_back(slack: SlackServer) -> None:
    """A shared file is downloaded with the bot's token, and another one uploaded in three steps."""
    dm = slack.people.direct("kim", "halo")
    slack.people.upload("kim", dm, "numbers.bin", FILE, text="turn this")
    (answer,) = await slack.answers(dm)
    assert answer["shown"] == "turned"
    assert answer["files"] == [{"id": answer["files"][0]["id"], "name": "back-numbers.bin", "size": len(FILE)}]
    assert slack.people.download(answer["files"][0]["id"]) == FILE[::-1]


@pytest.mark.parametrize(
    ("kind", "facts"),
    [("ratelimited", {"seconds": 0}), ("status", {"status": 503}), ("lost_request", {})],
)
async def test_refused_calls_are_made_again(slack: SlackServer, kind: str, facts: dict[str, int]) -> None:
    """After 429, 5xx or a lost request the client calls again, and one answer stands there."""
    dm = slack.people.direct("kim", "halo")
    fault = slack.fault("chat.postMessage", kind, **facts)
    slack.people.say("kim", dm, "hello")
    (answer,) = await slack.answers(dm)
    assert answer["shown"] == "echo: hello"
    assert fault.fired == 1
    assert len(slack.ledger.of("chat.postMessage")) == 2


async def test_a_lost_answer_makes_a_duplicate(slack: SlackServer) -> None:
    """A client that calls again after a lost answer, without a `client_msg_id`, has said it twice: people see it."""
    dm = slack.people.direct("kim", "halo")
    slack.fault("chat.postMessage", "lost_answer")
    slack.people.say("kim", dm, "hello")
    answers = await slack.answers(dm, count=2)
    assert [each["shown"] for each in answers] == ["echo: hello"] * 2
