"""Model calls over a real connection to a scripted server of the Messages API, each of its faults included."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    MALFORMED,
    Chunk,
    Message,
    ModelError,
    ModelProvider,
    ModelRequest,
    Stop,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from halo_kernel.testing.anthropic_server import Script, ScriptedAnthropic, ScriptedCall

from .conftest import KEY, MakeFamily, Play

READ = ToolSpec(name="file_read", description="Read.", parameters={"properties": {"path": {}}})
LIST = ToolSpec(name="file_list", description="List.", parameters={"type": "object"})
ASKED = Message("user", (Text("hello"),))
EPHEMERAL = {"type": "ephemeral"}


def question(text: str = "hello", **changes: Any) -> ModelRequest:
    return ModelRequest(**{"model": "m", "system": "Help.", "messages": (Message("user", (Text(text),)),), **changes})


async def answer(provider: ModelProvider, request: ModelRequest | None = None) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(request or question())]


async def failure(provider: ModelProvider, request: ModelRequest | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await answer(provider, request)
    return caught.value


def said(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def as_message(chunks: list[Chunk]) -> Message:
    """Return the message that the kernel keeps of an answer: one thinking, one text, calls with ids of its own."""
    thoughts = [chunk for chunk in chunks if isinstance(chunk, ThinkingDelta)]
    signature = next((chunk.signature for chunk in reversed(thoughts) if chunk.signature), None)
    calls = [chunk for chunk in chunks if isinstance(chunk, ToolCall)]
    thinking = Thinking("".join(chunk.text for chunk in thoughts), signature)
    renamed = (ToolCall(f"halo{at}", call.name, call.arguments) for at, call in enumerate(calls))
    return Message("assistant", (thinking, Text(said(chunks)), *renamed))


async def test_text_streams_with_usage_and_one_stop(play: Play) -> None:
    """Text arrives in pieces, then usage with the cache apart, then the one stop; the request is whole."""
    counts = {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 8}
    server, provider = await play(Script(text="Hello, 世界!", pieces=4, usage=counts))
    chunks = await answer(provider, question(max_tokens=99))
    assert said(chunks) == "Hello, 世界!"
    assert len([chunk for chunk in chunks if isinstance(chunk, TextDelta) and chunk.text]) == 4
    assert chunks[-2:] == [Usage(input=9, output=4, cache_read=70, cache_write=8), Stop("end")]
    (request,) = server.completions
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in request.headers and "anthropic-beta" not in request.headers
    marked = {"type": "text", "cache_control": EPHEMERAL}
    assert request.body == {
        "model": "m",
        "max_tokens": 99,
        "stream": True,
        "system": [marked | {"text": "Help."}],
        "messages": [{"role": "user", "content": [marked | {"text": "hello"}]}],
    }


async def test_every_answer_is_bounded(play: Play, vendors: MakeFamily) -> None:
    """`max_tokens` is what the request says, else the listed model's own limit, else the setting's."""
    server, provider = await play(*[Script(text="x")] * 4)
    asked = (question(max_tokens=7), question(model="claude-opus-4-8"), question(model="claude-haiku-4-5-20251001"))
    for request in (*asked, question(model="unlisted")):
        await answer(provider, request)
    assert [each.body["max_tokens"] for each in server.completions] == [7, 128000, 64000, 8192]
    async with ScriptedAnthropic() as other:
        env = {"ANTHROPIC_BASE_URL": other.url, "HALO_ANTHROPIC_MAX_TOKENS": "500"}
        await answer(vendors(env)["anthropic"])
        assert other.completions[0].body["max_tokens"] == 500


async def test_pieces_come_as_they_are_sent(play: Play) -> None:
    """The first piece is there long before the last one is sent."""
    _, provider = await play(Script(text="a b c d", pieces=4, delay=0.15))
    loop = asyncio.get_running_loop()
    pieces = [TextDelta(text) for text in ("a ", "b ", "c ", "d")]
    times = [loop.time() async for chunk in provider.stream(question()) if chunk in pieces]
    assert len(times) == 4
    assert times[-1] - times[0] > 0.3


@pytest.mark.parametrize("size", [1, 3, 7, 64])
async def test_any_fragmentation_on_the_wire(play: Play, size: int) -> None:
    """However TCP and HTTP cut the stream, the answer is the same."""
    calls = (ScriptedCall(name="file_read", arguments={"path": "ä.md"}),)
    _, provider = await play(Script(text="你好, world", thinking="hm", pieces=3, calls=calls, write_size=size))
    chunks = await answer(provider)
    assert said(chunks) == "你好, world"
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingDelta)) == "hm"
    assert chunks[-3:] == [ToolCall("toolu_0", "file_read", {"path": "ä.md"}), Usage(input=10, output=5), Stop("tools")]


@pytest.mark.parametrize("parallel", [False, True])
async def test_parallel_calls(play: Play, parallel: bool) -> None:
    """Parallel calls come out whole and in order, even if their pieces take turns."""
    calls = tuple(ScriptedCall(name="file_read", arguments={"path": name}, id=f"id-{name}") for name in "abc")
    _, provider = await play(Script(text="I look.", calls=calls, fragments=5, parallel=parallel))
    chunks = await answer(provider, question(tools=(READ,)))
    found = [chunk for chunk in chunks if isinstance(chunk, ToolCall)]
    assert found == [ToolCall(f"id-{name}", "file_read", {"path": name}) for name in "abc"]
    assert (said(chunks), chunks[-1]) == ("I look.", Stop("tools"))


async def test_malformed_arguments_are_not_lost(play: Play) -> None:
    """Arguments that are no JSON reach the kernel as their text; none at all are no arguments."""
    scripted = (ScriptedCall(name="file_read", arguments='{"path": '), ScriptedCall(name="file_list", arguments=""))
    _, provider = await play(Script(calls=scripted, finish="max_tokens"))
    chunks = await answer(provider)
    calls = [chunk.arguments for chunk in chunks if isinstance(chunk, ToolCall)]
    assert (calls, chunks[-1]) == ([{MALFORMED: '{"path": '}, {}], Stop("tools", "length"))


async def test_thinking_goes_back_signed(play: Play) -> None:
    """Signed and redacted thinking and the server's own call ids go back as they came, through the kernel's records."""
    calls = (ScriptedCall(name="file_read", id="toolu_a"), ScriptedCall(name="file_list", id="toolu_b"))
    first = Script(thinking="Let me see: é😀", redacted="opaque==", text="I look.", pieces=3, calls=calls)
    server, provider = await play(first, Script(text="done"))
    thought = as_message(await answer(provider, question(tools=(READ, LIST))))
    results = Message("user", (ToolResult("halo0", "content"), ToolResult("halo1", "no such folder", True)))
    asked = question(messages=(ASKED, thought, results), tools=(READ, LIST))
    assert said(await answer(provider, asked)) == "done"
    _, back, last = server.completions[-1].body["messages"]
    assert [block["type"] for block in back["content"]] == [
        "thinking", "redacted_thinking", "text", "tool_use", "tool_use",
    ]  # fmt: skip
    assert back["content"][0]["thinking"] == "Let me see: é😀"
    assert back["content"][1]["data"] == "opaque=="
    assert [block["id"] for block in back["content"][3:]] == ["toolu_a", "toolu_b"]
    assert last["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_a", "content": "content"},
        {"type": "tool_result", "tool_use_id": "toolu_b", "content": "no such folder", "is_error": True}
        | {"cache_control": EPHEMERAL},
    ]


async def test_thinking_goes_back_to_its_own_server_only(play: Play) -> None:
    """Another server, and one that is told of altered thinking, get none, and the calls keep the kernel's ids."""
    script = Script(thinking="hm", calls=(ScriptedCall(name="file_read", id="toolu_a"),))
    first, provider = await play(script)
    kept = as_message(await answer(provider))
    altered = Message("assistant", (Thinking("h…m", kept.content[0].signature), *kept.content[1:]))  # type: ignore[union-attr]
    second, other = await play(Script(text="x"))
    for server, asked, message in ((second, other, kept), (first, provider, altered)):
        await answer(asked, question(messages=(ASKED, message, Message("user", (ToolResult("halo0", "y"),)))))
        (block,) = server.completions[-1].body["messages"][1]["content"]
        assert (block["type"], block["id"]) == ("tool_use", "halo0")


@pytest.mark.parametrize(
    ("model", "wish", "sent"),
    [
        ("claude-sonnet-5", {}, None),
        ("claude-sonnet-5", {"enabled": True}, {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-4-5-20251001", {"enabled": True, "effort": "high"}, {"type": "enabled", "budget_tokens": 24576}),
        ("claude-opus-4-6", {"enabled": True, "budget_tokens": 4096}, {"type": "enabled", "budget_tokens": 4096}),
        ("claude-sonnet-5", {"effort": "disabled"}, {"type": "disabled"}),
        (
            "claude-opus-5-5",
            {},
            {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
        ),
    ],
)
async def test_each_model_is_asked_to_think_in_its_way(
    play: Play, model: str, wish: dict[str, object], sent: object
) -> None:
    """An agent's wish is put as the model takes it; where thinking is bound, a beta header goes with it."""
    server, provider = await play(Script(text="x"))
    await answer(provider, question(model=model, options={"thinking": wish}))
    (request,) = server.completions
    assert request.body.get("thinking") == sent
    assert ("anthropic-beta" in request.headers) == (model == "claude-opus-5-5")


async def test_breakpoints_of_the_prompt_cache(play: Play) -> None:
    """Tools, system and the user's last two messages are marked, never more; an agent may choose an hour, or none."""
    server, provider = await play(*[Script(text="x")] * 3)
    told = Message("assistant", (Text("yes"),))
    history = (ASKED, told, ASKED, told, Message("user", (Text("one"), Text("two"))))
    for wish in (True, "1h", False):
        asked = question(messages=history, tools=(LIST, READ), options={"promptCaching": wish})
        await answer(provider, asked)
    for request, mark in zip(server.completions, (EPHEMERAL, EPHEMERAL | {"ttl": "1h"}, None), strict=True):
        body = request.body
        blocks = [body["system"], body["tools"], *(message["content"] for message in body["messages"])]
        marked = [[block.get("cache_control") for block in each] for each in blocks]
        assert marked == [[mark], [None, mark], [None], [None], [mark], [None], [None, mark]]


@pytest.mark.parametrize(
    ("script", "kind", "retry_after"),
    [
        (Script(status=429, headers={"retry-after": "7"}), "throttle", 7.0),
        (Script(status=500), "server", None),
        (Script(status=529), "server", None),
        (Script(status=529, headers={"retry-after": "3"}), "server", 3.0),
        (Script(status=401), "account", None),
        (Script(status=402), "account", None),
        (Script(status=403), "account", None),
        (Script(status=404), "refused", None),
        (Script(status=413), "overflow", None),
        (Script(status=400), "refused", None),
        (
            Script(status=400, body='{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}'),
            "overflow",
            None,
        ),
        (Script(status=400, body='{"error": {"message": "Your credit balance is too low"}}'), "account", None),
        (Script(status=302, headers={"location": "http://127.0.0.1:1/"}), "refused", None),
        (Script(text="x" * 50, pieces=5, cut_at=4), "network", None),
        (Script(text="x" * 50, pieces=5, cut_at=4, cut="abort"), "network", None),
        (Script(text="x" * 50, pieces=5, cut_at=4, cut="end"), "network", None),
        (Script(text="x" * 50, pieces=5, cut_after_bytes=700), "network", None),
        (Script(text="x" * 50, pieces=5, cut_after_bytes=700, cut="end"), "network", None),
        (Script(text="x", cut_at=0), "network", None),
        (Script(text="x", finish=None, done=False), "network", None),
        (Script(text="x" * 50, pieces=5, damage_at=4), "network", None),
        (Script(text="x" * 50, pieces=5, error_at=4), "server", None),
        (Script(text="x", headers={"content-type": "text/html"}), "refused", None),
    ],
    ids=lambda value: "" if isinstance(value, Script) else str(value),
)
async def test_each_fault_has_its_kind(play: Play, script: Script, kind: str, retry_after: float | None) -> None:
    """Every fault is a `ModelError` of the right kind that names the key and never holds it."""
    _, provider = await play(script)
    error = await failure(provider)
    assert (error.kind, error.retry_after, error.credential) == (kind, retry_after, "ANTHROPIC_API_KEY")


async def test_pings_keep_a_call_alive(play: Play) -> None:
    """A slow first token is waited for as long as the server pings: each ping is a chunk without text."""
    _, provider = await play(Script(text="late", pings=4, delay=0.2))
    gaps, loop = list[float](), asyncio.get_running_loop()
    heard = loop.time()
    async for chunk in provider.stream(question()):
        gaps.append(loop.time() - heard)
        heard = loop.time()
        if chunk == TextDelta("late"):
            break
    assert sum(gaps) > 0.8
    assert max(gaps) < 0.6


async def test_an_answer_that_is_not_streamed(play: Play) -> None:
    """A server that ignores the wish for a stream is understood, its thinking and calls too."""
    calls = (ScriptedCall(name="file_read", arguments={"path": "x"}),)
    _, provider = await play(Script(text="a", whole=True), Script(thinking="hm", calls=calls, whole=True))
    assert await answer(provider) == [TextDelta("a"), Usage(input=10, output=5), Stop("end")]
    chunks = await answer(provider)
    assert (chunks[0], chunks[2]) == (ThinkingDelta("hm"), ToolCall("toolu_0", "file_read", {"path": "x"}))


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("end_turn", Stop("end")),
        ("max_tokens", Stop("length")),
        ("model_context_window_exceeded", Stop("length")),
        ("stop_sequence", Stop("end", "stop_sequence")),
        ("pause_turn", Stop("end", "pause_turn")),
        ("refusal", Stop("refusal", "refusal")),
    ],
)
async def test_each_stop_reason(play: Play, finish: str, stop: Stop) -> None:
    """Each stop reason of the API has one meaning."""
    _, provider = await play(Script(text="x", finish=finish))
    assert (await answer(provider))[-1] == stop


async def test_a_refused_answer_runs_nothing(play: Play) -> None:
    """Calls of a refused answer are dropped."""
    _, provider = await play(Script(calls=(ScriptedCall(name="rm"),), finish="refusal"))
    assert not [chunk for chunk in await answer(provider) if isinstance(chunk, ToolCall)]


@pytest.mark.parametrize("script", [Script(text="a b c", pieces=3, delay=30), Script(text="abc", hang_at=3)])
async def test_closing_the_generator_closes_the_connection(play: Play, script: Script) -> None:
    """Who stops reading is gone for the server at once."""
    server, provider = await play(script)
    stream = provider.stream(question())
    waiting = asyncio.ensure_future(_all(stream))
    await asyncio.wait({waiting}, timeout=0.3)
    waiting.cancel()
    await asyncio.wait({waiting})
    await stream.aclose()
    await asyncio.wait_for(server.completions[0].over.wait(), 5)
    assert server.completions[0].ended == "gone"


async def _all(stream: Any) -> None:
    async for _ in stream:
        pass


async def test_a_failed_call_harms_no_later_one(play: Play) -> None:
    """After each fault the next call works."""
    faults = [Script(text="x", cut_at=2), Script(status=500), Script(text="xx", pieces=2, damage_at=3)]
    _, provider = await play(*[each for fault in faults for each in (fault, Script(text="well"))])
    for _ in faults:
        await failure(provider)
        assert said(await answer(provider)) == "well"


@pytest.mark.parametrize(
    "script",
    [
        Script(status=401, body=f'{{"error": {{"message": "invalid x-api-key: {KEY}"}}}}'),
        Script(text="x", cut_at=1),
        Script(text="x", cut_at=0, cut="abort"),
    ],
)
async def test_a_key_is_in_no_error_and_no_log(play: Play, script: Script, caplog: pytest.LogCaptureFixture) -> None:
    """A key is in no error, its cause or context, and no log, even if the server repeats it."""
    caplog.set_level(logging.DEBUG)
    server, provider = await play(script)
    error: BaseException | None = await failure(provider)
    assert server.completions[0].headers["x-api-key"] == KEY
    while error is not None:
        assert KEY not in f"{error!r} {vars(error)}"
        error = error.__cause__ or error.__context__
    assert KEY not in caplog.text


async def test_each_vendor_is_asked_in_its_dialect(vendors: MakeFamily, home: Path) -> None:
    """Qwen gets no version and its key; a vendor of one's own may want a bearer token."""
    async with ScriptedAnthropic() as server:
        manifests = home / "global" / "models"
        (manifests / "qwen.yaml").write_text(f"id: qwen\ndefaultEndpoint: {server.url}/apps/anthropic\n")
        (manifests / "mine.yaml").write_text(
            f"id: mine\napi: messages\ndefaultEndpoint: {server.url}/v1\nwire: {{auth: bearer, cache: false}}\n"
            "secrets: [{key: api_key, default: <<MINE_KEY_OF_TEST>>}]\n"
        )
        made = vendors({"DASHSCOPE_API_KEY": "sk-q", "MINE_KEY_OF_TEST": "sk-m"})
        await answer(made["qwen"], question(model="qwen3.7-max", options={"promptCaching": "1h"}))
        await answer(made["mine"])
        qwen, mine = server.completions
    assert (qwen.path, qwen.headers["x-api-key"]) == ("/apps/anthropic/v1/messages", "sk-q")
    assert "anthropic-version" not in qwen.headers
    assert qwen.body["system"][0]["cache_control"] == EPHEMERAL
    assert (mine.path, mine.headers["authorization"]) == ("/v1/messages", "Bearer sk-m")
    assert "cache_control" not in mine.body["system"][0]


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "/v1/messages"])
async def test_every_way_to_write_the_base_url(vendors: MakeFamily, tail: str) -> None:
    """The base URL works with and without a slash, the version, and the path of the call; no key is needed there."""
    async with ScriptedAnthropic([Script(text="x")]) as server:
        assert said(await answer(vendors({"ANTHROPIC_BASE_URL": server.url + tail})["anthropic"])) == "x"
        assert server.completions[0].path == "/v1/messages"
        assert "x-api-key" not in server.completions[0].headers


async def test_an_agents_endpoint_must_be_the_vendors(play: Play) -> None:
    """An endpoint from an agent's file gets no request, and so no key, unless it is the vendor's own server."""
    server, provider = await play(Script(text="x"))
    async with ScriptedAnthropic() as other:
        error = await failure(provider, question(endpoint=other.url))
        assert (error.kind, other.requests) == ("refused", [])
    assert said(await answer(provider, question(endpoint=server.url + "/v1"))) == "x"


async def test_an_option_that_is_no_mapping_is_refused(play: Play) -> None:
    """A wrong option is a `refused` that names it, before anything is sent."""
    server, provider = await play()
    error = await failure(provider, question(options={"thinking": "high"}))
    assert (error.kind, "thinking" in error.message, server.requests) == ("refused", True, [])
