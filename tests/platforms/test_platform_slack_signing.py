"""The signature is Slack's, and a server that checks it refuses what it should."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from slack_sdk.signature import Clock, SignatureVerifier

from .slack import Pace, SlackServer
from .slack.signing import signature
from .slack_echo import echo_app, over_http

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
COMMAND = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
CHALLENGE = b'{"type":"url_verification","challenge":"abc"}'


class _Later(Clock):
    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    """A Slack whose echo app listens over HTTP."""
    async with SlackServer(pace=Pace(retries=(0.0,))) as slack, over_http(slack, echo_app(slack)):
        slack.people.add_user("kim")
        yield slack


@pytest.mark.parametrize(
    ("timestamp", "body", "expected"),
    [
        (1531420618, COMMAND, "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
        (1700000000, CHALLENGE, "v0=cdd08080b08d2190d090c054cc229bb5419f506614b24298bd5789fdf990ede4"),
    ],
)
def test_the_signature_is_slacks(timestamp: int, body: bytes, expected: str) -> None:
    """The documented example and a challenge have the signatures that Slack's own verifier takes."""
    assert signature(SECRET, timestamp, body) == expected
    for late, valid in ((299, True), (301, False)):
        verifier = SignatureVerifier(SECRET, clock=_Later(timestamp + late))
        assert verifier.is_valid(body, str(timestamp), expected) is valid


async def test_a_request_url_gives_the_challenge_back(slack: SlackServer) -> None:
    """Bolt answers the challenge, and a server with another secret does not."""
    assert await slack.admin.verify("halo")
    slack.app.signing_secret = "another"
    assert not await slack.admin.verify("halo")


@pytest.mark.parametrize("kind", ["wrong_signature", "stale_signature"])
async def test_bad_signatures_are_refused_and_tried_again(slack: SlackServer, kind: str) -> None:
    """Bolt answers 401 to a wrong or an old signature; the next attempt, signed well, says which one it is."""
    slack.fault("message", kind)
    dm = slack.people.direct("kim", "halo")
    slack.people.say("kim", dm, "hello")
    await slack.answers(dm)
    first = next(each for each in slack.ledger.deliveries if each.name == "message.im")
    await slack.wait(lambda: first.state == "acked")
    assert [(each.number, each.reason, each.status) for each in first.attempts] == [
        (0, "", 401),
        (1, "http_error", 200),
    ]
