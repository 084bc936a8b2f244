"""The scripted server of the Messages API, as the tests of others rely on it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel.testing import ScriptedAnthropic
from halo_kernel.testing.anthropic_rules import complaint, signed
from halo_kernel.testing.anthropic_script import Messages
from halo_kernel.testing.responders import Received, echo, files
from halo_kernel.testing.scripts import Script, ScriptedCall

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "hello"}
QUESTION: Json = {"model": "m", "max_tokens": 9, "stream": True, "messages": [USER]}
COMMAND = [sys.executable, "-m", "halo_kernel.testing.anthropic_server", "--port", "0"]
TOOLS: Any = [{"name": "note", "description": "Note it.", "input_schema": {"type": "object"}}]


def call(url: str, body: object = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=20) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def events(raw: bytes) -> list[Json]:
    """Read a stream, whose events each name their type twice."""
    found: list[Json] = []
    for block in raw.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def streamed(script: Script) -> list[Json]:
    return events(b"".join(Messages().events(script, "m")))


def test_it_runs_as_a_process(tmp_path: Path) -> None:
    """The process prints its URL, plays its scripts, then echoes, and tells what it was asked."""
    script = tmp_path / "script.json"
    script.write_text('[{"status": 529, "headers": {"retry-after": "3"}}, {"text": "scripted", "pieces": 3}]')
    child = subprocess.Popen([*COMMAND, "--script", str(script), "--models", "a,b"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        url = child.stdout.readline().strip()
        assert [each["id"] for each in json.loads(call(f"{url}/v1/models")[1])["data"]] == ["a", "b"]
        status, raw = call(f"{url}/v1/messages", QUESTION)
        assert (status, json.loads(raw)["error"]["type"]) == (529, "overloaded_error")
        assert b"scripted" not in call(f"{url}/v1/messages", QUESTION)[1]
        assert b"You " in call(f"{url}/v1/messages", QUESTION)[1]
        assert call(f"{url}/v1/nowhere", QUESTION)[0] == 404
        requests = json.loads(call(f"{url}/requests")[1])
        assert [each["body"] for each in requests if each["path"] == "/v1/messages"] == [QUESTION] * 3
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0


def test_the_order_of_events() -> None:
    """A stream is as the API documents it: every block begun, added to and ended in turn, then the end."""
    script = Script(thinking="hm", redacted="x", text="ab", pieces=2, calls=(ScriptedCall(name="t"),), fragments=1)
    kinds = [(event["type"], event.get("index")) for event in streamed(script)]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds == [
        ("message_start", None),
        ("ping", None),
        *((kind, 0) for kind in (block[0], *block[1:2] * 3, block[2])),
        *((kind, 1) for kind in (block[0], block[2])),
        *((kind, 2) for kind in (block[0], *block[1:2] * 2, block[2])),
        *((kind, 3) for kind in (block[0], *block[1:2] * 2, block[2])),
        ("message_delta", None),
        ("message_stop", None),
    ]
    end = streamed(script)[-2]
    assert (end["delta"]["stop_reason"], end["usage"]) == ("tool_use", {"input_tokens": 10, "output_tokens": 5})


@settings(deadline=None)
@given(st.text(alphabet="ab é你😀\n", max_size=20), st.text(max_size=20), st.integers(1, 5), st.booleans())
def test_pieces_join_to_what_was_scripted(text: str, argument: str, pieces: int, parallel: bool) -> None:
    """Deltas of a block join to its text, thinking or input, however many there are and whoever takes turns."""
    calls = tuple(ScriptedCall(name="t", arguments={name: argument}) for name in "ab")
    script = Script(text=text, thinking=text, calls=calls, pieces=pieces, fragments=pieces, parallel=parallel)
    joined: dict[int, str] = {}
    for event in streamed(script):
        if event["type"] == "content_block_delta":
            delta = event["delta"]
            said = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            joined[event["index"]] = joined.get(event["index"], "") + said
    *said, first, second = joined.values()
    assert said == [text] * (2 if text else 0)
    assert [json.loads(each) for each in (first, second)] == [{"a": argument}, {"b": argument}]


def turn(role: str, *blocks: Json) -> Json:
    return {"role": role, "content": list(blocks)}


def text(said: str = "x", **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


CALL: Json = {"type": "tool_use", "id": "t", "name": "note", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "t", "content": "noted"}
MARKED = text(cache_control={"type": "ephemeral"})
BUDGET: Json = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"messages": []}, "messages: Field required"),
        ({"messages": [turn("system", text())]}, "messages.0.role"),
        ({"messages": [turn("user")]}, "must have non-empty content"),
        ({"messages": [turn("user", text(" "))]}, "must contain non-whitespace text"),
        ({"messages": [USER, turn("assistant", CALL), turn("user", RESULT)]}, ""),
        ({"messages": [USER, turn("assistant", CALL)]}, "without `tool_result` blocks immediately after: t"),
        ({"messages": [USER, turn("assistant", text()), turn("user", RESULT)]}, "unexpected `tool_use_id`"),
        ({"messages": [USER, turn("assistant", CALL, CALL), turn("user", RESULT)]}, "ids must be unique"),
        ({"messages": [turn("user", MARKED)] * 5}, "A maximum of 4 blocks with cache_control may be provided. Found 5"),
        ({"messages": [turn("user", MARKED)] * 3, "system": [MARKED]}, ""),
        ({"messages": [turn("assistant", {"type": "thinking", "thinking": "a", "signature": "b"})]}, "Invalid `sig"),
        ({"messages": [turn("assistant", {"type": "thinking", "thinking": "a", "signature": signed("a")})]}, ""),
        (BUDGET, ""),
        (BUDGET | {"max_tokens": 1024}, "`max_tokens` must be greater than `thinking.budget_tokens`"),
        (BUDGET | {"thinking": {"type": "enabled", "budget_tokens": 9}}, "greater than or equal to 1024"),
        (BUDGET | {"messages": [USER, turn("assistant", CALL), turn("user", RESULT)]}, "Expected `thinking`"),
    ],
)
def test_it_refuses_what_the_real_one_refuses(changes: Json, words: str) -> None:
    """A request that breaks a rule of the API gets a sentence that names it, a good one none."""
    found = complaint(QUESTION | changes)
    assert words in found
    assert bool(found) == bool(words)


async def test_a_refused_request_takes_no_script() -> None:
    """What is refused for its form is recorded, answered with 400, and leaves the script for the next one."""
    async with ScriptedAnthropic([Script(text="scripted", whole=True)]) as server:
        url = f"{server.url}/v1/messages"
        status, raw = await asyncio.to_thread(call, url, QUESTION | {"max_tokens": 0})
        assert (status, json.loads(raw)["error"]["message"]) == (400, "max_tokens: Field required")
        assert json.loads((await asyncio.to_thread(call, url, QUESTION))[1])["content"][0]["text"] == "scripted"
        assert [request.ended for request in server.completions] == ["whole", "whole"]


def asked(*messages: Json) -> Received:
    return Received("POST", "/", {}, {"messages": list(messages), "tools": [{"name": "file_list", "input_schema": {}}]})


def test_the_responders_understand_this_wire() -> None:
    """They find the question and the results of its tools in blocks, and the tools that are offered."""
    question, listed = turn("user", text("what is here?")), RESULT | {"content": [text("src")]}
    first = files(asked(question))
    assert isinstance(first, Script) and first.calls[0].arguments == {"path": "."}
    second = files(asked(question, turn("assistant", CALL), turn("user", listed)))
    assert isinstance(second, Script) and "src" in second.text
    again = asked(question, turn("assistant", CALL), turn("user", listed), turn("user", text("b")))
    assert (again.results, again.question) == ([], "b")
    assert echo(again) == Script(text="You said: b", pieces=4)


# A real client of this wire


@pytest.fixture
async def client() -> AsyncGenerator[tuple[ScriptedAnthropic, AsyncAnthropic], None]:
    """The vendor's own SDK, which retries nothing, beside the server that it asks."""
    if find_spec("anthropic") is None:
        if os.environ.get("HALO_CI"):
            pytest.fail("CI must install anthropic", pytrace=False)
        pytest.skip("not installed here: anthropic")
    from anthropic import AsyncAnthropic

    async with ScriptedAnthropic() as server, AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as found:
        yield server, found


async def test_the_sdk_streams_from_it(client: tuple[ScriptedAnthropic, AsyncAnthropic]) -> None:
    """The SDK reads text, signed and redacted thinking, parallel calls, usage and the stop; its request is accepted."""
    server, sdk = client
    calls = tuple(ScriptedCall(name="note", arguments={"text": name}, id=f"toolu_{name}") for name in "ab")
    server.scripts.append(Script(thinking="hm", redacted="opaque", text="I note.", pieces=3, pings=2, calls=calls))
    server.scripts.append(Script(text="noted", usage={"input_tokens": 3, "output_tokens": 2}))
    messages: list[Any] = [USER]
    async with sdk.messages.stream(model="m", max_tokens=99, messages=messages, tools=TOOLS) as stream:
        message = await stream.get_final_message()
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    assert (message.content[2].text, message.content[4].input) == ("I note.", {"text": "b"})  # type: ignore[union-attr]
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("tool_use", 10, 5)
    results: Any = [RESULT | {"tool_use_id": f"toolu_{name}"} for name in "ab"]
    messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    async with sdk.messages.stream(model="m", max_tokens=99, messages=messages, tools=TOOLS) as stream:
        assert [piece async for piece in stream.text_stream] == ["noted"]


async def test_the_sdk_takes_a_whole_message(client: tuple[ScriptedAnthropic, AsyncAnthropic]) -> None:
    """A call that is not streamed is a message as the SDK reads it; the list of models is one too."""
    server, sdk = client
    server.scripts.append(Script(text="whole", whole=True))
    messages: list[Any] = [USER]
    message = await sdk.messages.create(model="m", max_tokens=9, messages=messages)
    assert (message.content[0].text, message.stop_reason) == ("whole", "end_turn")  # type: ignore[union-attr]
    assert [model.id async for model in sdk.models.list()] == ["scripted"]


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (Script(status=429, headers={"retry-after": "1"}), "RateLimitError"),
        (Script(status=500), "InternalServerError"),
        (Script(status=529), "OverloadedError"),
        (Script(status=401), "AuthenticationError"),
        (Script(text="xx", pieces=2, cut_at=4), "RemoteProtocolError"),
        (Script(text="xx", pieces=2, damage_at=3), "JSONDecodeError"),
        (Script(text="xx", pieces=2, error_at=3), "APIStatusError"),
        (Script(first_delay=5, text="x"), "APITimeoutError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_sdk_sees_each_fault(
    client: tuple[ScriptedAnthropic, AsyncAnthropic], script: Script, name: str
) -> None:
    """Each fault is to the SDK what it would be from the real server."""
    server, sdk = client
    server.scripts.append(script)
    messages: list[Any] = [USER]
    with pytest.raises(Exception) as caught:
        async with sdk.messages.stream(model="m", max_tokens=9, messages=messages, timeout=1) as stream:
            await stream.get_final_message()
    assert name in [kind.__name__ for kind in type(caught.value).__mro__]
