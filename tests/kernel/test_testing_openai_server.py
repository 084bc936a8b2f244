"""The scripted chat-completions server, as the tests of others rely on it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel.testing.openai_responders import Received, echo, files
from halo_kernel.testing.openai_rules import complaint
from halo_kernel.testing.openai_script import ChatCompletions, Script, ScriptedCall, cut, read_scripts
from halo_kernel.testing.openai_server import ScriptedOpenAI

QUESTION = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
COMMAND = [sys.executable, "-m", "halo_kernel.testing.openai_server", "--port", "0"]


def call(url: str, body: object = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=20) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def chunks(raw: bytes) -> list[dict[str, Any]]:
    events = [line.removeprefix("data: ") for line in raw.decode().split("\n\n") if line]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def streamed(raw: bytes) -> str:
    deltas = [choice["delta"] for chunk in chunks(raw) for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[str]:
    """A server process with two scripts, by its base URL."""
    script = tmp_path / "script.json"
    script.write_text('[{"status": 429, "headers": {"retry-after": "3"}}, {"text": "scripted", "pieces": 3}]')
    child = subprocess.Popen([*COMMAND, "--script", str(script), "--models", "a,b"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip()
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0


def test_it_runs_as_a_process(process: str) -> None:
    """The process prints its URL, plays its scripts, then echoes, and tells what it was asked."""
    root = process.removesuffix("/v1")
    assert call(f"{process}/models")[1].count(b'"id"') == 2
    assert call(f"{process}/chat/completions", QUESTION)[0] == 429
    assert streamed(call(f"{process}/chat/completions", QUESTION)[1]) == "scripted"
    assert streamed(call(f"{process}/chat/completions", QUESTION)[1]) == "You said: hello"
    assert call(f"{root}/scripts", {"scripts": [{"text": "more"}]})[0] == 200
    assert streamed(call(f"{process}/chat/completions", QUESTION)[1]) == "more"
    assert call(f"{root}/nowhere")[0] == 404
    requests = json.loads(call(f"{root}/requests")[1])
    asked = [each for each in requests if each["path"].endswith("/chat/completions")]
    assert [each["body"] for each in asked] == [QUESTION] * 4
    assert {each["ended"] for each in asked} == {"whole"}


async def test_it_runs_in_a_test() -> None:
    """In a test it is a context manager, and leaving it ends what hangs."""
    async with ScriptedOpenAI([Script(hang_at=0), Script(text="x")]) as server:
        hanging = asyncio.create_task(asyncio.to_thread(call, f"{server.url}/chat/completions", QUESTION))
        while not server.completions:  # noqa: ASYNC110 - the request arrives in a thread's time
            await asyncio.sleep(0.01)
        _, raw = await asyncio.to_thread(call, f"{server.url}/chat/completions", QUESTION)
        assert streamed(raw) == "x"
    with pytest.raises(Exception, match=r"IncompleteRead|reset|closed|aborted"):
        await hanging


def test_a_wrong_script_names_its_field() -> None:
    """A misspelt field is refused by its name."""
    with pytest.raises(msgspec.ValidationError, match="piece"):
        read_scripts(b'[{"text": "x", "piece": 3}]')


@settings(deadline=None)
@given(st.text(alphabet="ab é你😀\n", max_size=40), st.integers(1, 9))
def test_pieces_join_to_the_text(text: str, pieces: int) -> None:
    """A text is cut into at most that many pieces, none of them empty."""
    parts = cut(text, pieces)
    assert "".join(parts) == text
    assert len(parts) <= pieces
    assert all(parts)


def test_arguments_in_fragments() -> None:
    """Fragments of a call join to its arguments; only the first carries name and id."""
    script = Script(calls=(ScriptedCall(name="t", arguments={"path": "é"}),), fragments=4)
    streamed = chunks(b"".join(ChatCompletions().events(script, "m")))
    found = [chunk["choices"][0]["delta"] for chunk in streamed if chunk["choices"]]
    parts = [fragment for delta in found for fragment in delta.get("tool_calls", [])]
    assert json.loads("".join(part["function"]["arguments"] for part in parts)) == {"path": "é"}
    assert [part.get("id") for part in parts] == ["call_0", None, None, None]


def asked(*messages: dict[str, Any], tools: tuple[str, ...] = ("file_list", "file_read")) -> Received:
    offered = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
    return Received("POST", "/", {}, {"messages": list(messages), "tools": offered})


def test_the_files_responder() -> None:
    """It lists, reads a readme only where there is one, and answers from what the tools said."""
    user = {"role": "user", "content": "what is here?"}
    listed = {"role": "tool", "content": "README.md\nsrc"}
    read = {"role": "tool", "content": "# Title"}
    assert [each.name for each in _script(files(asked(user))).calls] == ["file_list"]
    assert [each.arguments for each in _script(files(asked(user, listed))).calls] == [{"path": "README.md"}]
    answer = _script(files(asked(user, listed, read)))
    assert "src" in answer.text
    assert "# Title" in answer.text
    assert "no readme" in _script(files(asked(user, {"role": "tool", "content": "src"}))).text
    assert _script(files(asked(user, tools=()))).text == "I have no tools here."


def test_the_echo_responder() -> None:
    """It repeats the last question, whose text may come in parts."""
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert _script(echo(asked(parts))).text == "You said: ab"


def _script(found: object) -> Script:
    assert isinstance(found, Script)
    return found


USER = {"role": "user", "content": "hello"}
CALL = {"id": "1", "type": "function", "function": {"name": "note", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "1", "content": ""}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "is too short"),
        ([{"role": "human", "content": "hello"}], "messages[0].role"),
        ([USER, {"role": "assistant", "content": " "}, USER], "messages[1].content"),
        ([USER, CALLED], "did not have response messages: 1"),
        ([USER, CALLED, USER, TOLD], "did not have response messages: 1"),
        ([USER, TOLD], "must be a response to a preceding 'tool_calls'"),
        ([USER, CALLED, TOLD, TOLD], "must be a response to a preceding 'tool_calls'"),
        ([USER, {**CALLED, "tool_calls": [CALL, CALL]}, TOLD], "must be unique"),
        ([USER, {**CALLED, "tool_calls": [{**CALL, "function": {"name": "a b"}}]}, TOLD], "function.name"),
    ],
)
def test_it_refuses_what_a_real_one_refuses(messages: list[dict[str, Any]], words: str) -> None:
    """Calls without answers, answers without calls, and what is empty."""
    assert words in complaint({"messages": messages})
    assert not complaint({"messages": [USER, CALLED, TOLD, {"role": "assistant", "content": "done"}, USER]})


async def test_a_refused_request_takes_no_script() -> None:
    """It is answered with 400, and the script is there for the next one."""
    async with ScriptedOpenAI([Script(text="fine")]) as server:
        ask = f"{server.url}/chat/completions"
        status, raw = await asyncio.to_thread(call, ask, QUESTION | {"messages": [USER, CALLED]})
        assert (status, b"did not have response" in raw) == (400, True)
        assert streamed((await asyncio.to_thread(call, ask, QUESTION))[1]) == "fine"
