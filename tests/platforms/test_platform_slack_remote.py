"""The platform runs in a thread or a process of its own, for clients that block and servers that get killed."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web import WebClient

from .slack import Remote, spawned, threaded


@pytest.fixture(params=[threaded, lambda: spawned("--ack", "3", "--retries", "0,0.2,0.2")], ids=["thread", "process"])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    """A Slack elsewhere, with Kim."""
    start: Callable[[], AbstractContextManager[Remote]] = request.param
    with start() as remote:
        remote.call("add_user", name="kim")
        yield remote


def test_the_blocking_clients_run_on_it(remote: Remote) -> None:
    """slack-sdk's own WebSocket client and its blocking Web API client hear and answer."""
    app = remote.call("describe", name="halo")
    web = WebClient(app["token"], base_url=remote.api_url)
    heard = threading.Event()

    def listen(client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        event = request.payload["event"]
        if "bot_id" not in event:
            web.chat_postMessage(channel=event["channel"], text=f"echo: {event['text']}")
            heard.set()

    sdk = SocketModeClient(app_token=app["app_token"], web_client=web, ping_interval=0.2)
    sdk.socket_mode_request_listeners.append(listen)
    sdk.connect()
    try:
        remote.call("wait_count", name="sockets:opened")
        dm = remote.call("direct", names=["kim", "halo"])
        remote.call("say", user="kim", channel=dm, text="hello")
        (answer,) = remote.call("wait_answers", channel=dm)
        assert answer["shown"] == "echo: hello"
        assert heard.wait(5)
        assert len(remote.call("sockets")) == 1
    finally:
        sdk.close()


def test_everything_can_be_asked_from_outside(remote: Remote) -> None:
    """Files, faults, sockets and the ledger go over the control interface; a mistake names itself."""
    dm = remote.call("direct", names=["kim", "halo"])
    remote.call("upload", user="kim", channel=dm, name="a.txt", content=b"abc", text="there")
    (seen,) = remote.call("read", channel=dm)
    assert base64.b64decode(remote.call("download", file_id=seen["files"][0]["id"])) == b"abc"
    remote.call("fault", on="auth.test", kind="error", error="fatal_error")
    web = WebClient(remote.call("describe", name="halo")["token"], base_url=remote.api_url)
    with pytest.raises(Exception, match="fatal_error"):
        web.auth_test()
    remote.call("clear_faults")
    assert remote.call("drop") == 0
    told = remote.call("ledger")
    assert told["counts"]["calls:auth.test"] == 1
    assert (told["calls"][0]["error"], told["calls"][0]["fault"]) == ("fatal_error", "error")
    for verb, arguments, reason in (
        ("say", {"user": "nobody", "channel": dm, "text": "x"}, "there is no 'nobody'"),
        ("say", {"user": "kim"}, "missing"),
        ("fault", {"on": "*", "kind": "typo"}, "typo"),
        ("sing", {}, "none of"),
    ):
        with pytest.raises(ValueError, match=reason):
            remote.call(verb, **arguments)


def test_a_process_ends_when_it_is_told() -> None:
    """The process prints its address first and ends on SIGTERM."""
    command = [sys.executable, "-m", "tests.platforms.slack", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(10) == 0
