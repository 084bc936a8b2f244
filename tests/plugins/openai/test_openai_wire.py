"""Model calls over a real connection to a scripted server, each of its faults included."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Callable
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
from halo_kernel.testing.openai_server import Received, Script, ScriptedCall, ScriptedOpenAI
from halo_lib_wire import SseParser

from .conftest import MakeFamily

KEY = "sk-very-secret-0123456789"
READ = ToolSpec(name="file_read", description="Read.", parameters={"type": "object", "properties": {"path": {}}})
Connect = Callable[[ScriptedOpenAI], ModelProvider]


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


@pytest.fixture
def connect(family: MakeFamily) -> Connect:
    """Make the provider of the server at `OPENAI_BASE_URL`."""
    return lambda server: family({"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m"})["custom"]


@pytest.fixture
async def play(connect: Connect) -> AsyncGenerator[Callable[..., Any], None]:
    """Start a server with these scripts and return its provider."""
    servers: list[ScriptedOpenAI] = []

    async def start(*scripts: Script, **options: Any) -> tuple[ScriptedOpenAI, ModelProvider]:
        server = await ScriptedOpenAI(scripts, **options).__aenter__()
        servers.append(server)
        return server, connect(server)

    yield start
    for server in servers:
        await server.__aexit__(None, None, None)


async def test_text_streams_with_usage_and_one_stop(play: Any) -> None:
    """Text arrives in pieces, then usage, then the one stop; the request carries the key and the session's words."""
    server, provider = await play(
        Script(text="Hello, 世界!", pieces=4, usage={"prompt_tokens": 9, "completion_tokens": 4})
    )
    chunks = await answer(provider)
    assert said(chunks) == "Hello, 世界!"
    assert len([chunk for chunk in chunks if isinstance(chunk, TextDelta)]) == 4
    assert chunks[-2:] == [Usage(input=9, output=4), Stop("end")]
    (request,) = server.completions
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["messages"] == [{"role": "system", "content": "Help."}, {"role": "user", "content": "hello"}]
    assert (request.body["stream"], request.body["stream_options"]) == (True, {"include_usage": True})


async def test_pieces_come_as_they_are_sent(play: Any) -> None:
    """The first piece is there long before the last one is sent."""
    _, provider = await play(Script(text="a b c d", pieces=4, delay=0.15))
    loop = asyncio.get_running_loop()
    times = [loop.time() async for chunk in provider.stream(question()) if isinstance(chunk, TextDelta)]
    assert len(times) == 4
    assert times[-1] - times[0] > 0.3


@pytest.mark.parametrize("size", [1, 3, 7, 64])
async def test_any_fragmentation_on_the_wire(play: Any, size: int) -> None:
    """However TCP and HTTP cut the stream, the answer is the same."""
    calls = (ScriptedCall(name="file_read", arguments={"path": "ä.md"}),)
    _, provider = await play(Script(text="你好, world", thinking="hm", pieces=3, calls=calls, write_size=size))
    chunks = await answer(provider)
    assert said(chunks) == "你好, world"
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingDelta)) == "hm"
    assert chunks[-3:] == [ToolCall("call_0", "file_read", {"path": "ä.md"}), Usage(input=10, output=5), Stop("tools")]


async def test_parallel_calls_in_fragments(play: Any) -> None:
    """Parallel calls whose fragments take turns come out whole and in order."""
    calls = tuple(ScriptedCall(name="file_read", arguments={"path": name}, id=f"id-{name}") for name in "abc")
    _, provider = await play(Script(calls=calls, fragments=5, parallel=True))
    chunks = await answer(provider, question(tools=(READ,)))
    found = [chunk for chunk in chunks if isinstance(chunk, ToolCall)]
    assert found == [ToolCall(f"id-{name}", "file_read", {"path": name}) for name in "abc"]
    assert chunks[-1] == Stop("tools")


async def test_calls_as_ollama_numbers_them(play: Any) -> None:
    """Calls that all have the index 0, or no index and no id, are still as many calls."""
    same = tuple(ScriptedCall(name="file_read", arguments={"path": name}, id=f"id-{name}", index=0) for name in "ab")
    none = tuple(ScriptedCall(name="file_read", arguments={"path": name}, id=None, index=None) for name in "ab")
    _, provider = await play(Script(calls=same, finish="stop"), Script(calls=none, finish="stop"))
    for _ in range(2):
        chunks = await answer(provider)
        found = [chunk for chunk in chunks if isinstance(chunk, ToolCall)]
        assert [call.arguments for call in found] == [{"path": "a"}, {"path": "b"}]
        assert len({call.id for call in found}) == 2
        assert chunks[-1] == Stop("tools")


async def test_malformed_arguments_are_not_lost(play: Any) -> None:
    """Arguments that are no JSON reach the kernel as their text."""
    _, provider = await play(Script(calls=(ScriptedCall(name="file_read", arguments='{"path": '),)))
    assert (await answer(provider))[0] == ToolCall("call_0", "file_read", {MALFORMED: '{"path": '})


async def test_a_conversation_with_tools(play: Any) -> None:
    """A whole exchange over tools: the server lists and reads through the client, then answers from it."""
    from halo_kernel.testing.openai_responders import files

    listing = ToolSpec(name="file_list", description="List.", parameters={"type": "object", "properties": {"path": {}}})
    server, provider = await play(responder=files)
    results = {"file_list": "README.md\nsrc", "file_read": "# Project\nIt counts."}
    messages = [Message("user", (Text("what is here?"),))]
    for _ in range(4):
        chunks = await answer(provider, question(messages=tuple(messages), tools=(READ, listing)))
        calls = [chunk for chunk in chunks if isinstance(chunk, ToolCall)]
        if not calls:
            break
        messages.append(Message("assistant", tuple(calls)))
        messages.append(Message("user", tuple(ToolResult(call.id, results[call.name]) for call in calls)))
    assert "It counts." in said(chunks)
    assert "README.md" in said(chunks)
    assert [each["role"] for each in server.completions[-1].messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "kind", "retry_after"),
    [
        (Script(status=429, headers={"retry-after": "7"}), "throttle", 7.0),
        (Script(status=429, body='{"error": {"code": "insufficient_quota", "message": "quota"}}'), "account", None),
        (Script(status=500), "server", None),
        (Script(status=503, headers={"retry-after": "2"}), "server", 2.0),
        (Script(status=529), "server", None),
        (Script(status=408), "server", None),
        (Script(status=401), "account", None),
        (Script(status=402), "account", None),
        (Script(status=403), "account", None),
        (Script(status=400), "refused", None),
        (Script(status=404), "refused", None),
        (Script(status=302, headers={"location": "http://127.0.0.1:1/"}), "refused", None),
        (Script(status=400, body='{"error": {"message": "maximum context length is 8 tokens"}}'), "overflow", None),
        (Script(text="x" * 50, pieces=5, cut_at=3), "network", None),
        (Script(text="x" * 50, pieces=5, cut_at=3, cut="abort"), "network", None),
        (Script(text="x" * 50, pieces=5, cut_at=3, cut="end"), "network", None),
        (Script(text="x" * 50, pieces=5, cut_after_bytes=500), "network", None),
        (Script(text="x" * 50, pieces=5, cut_after_bytes=500, cut="end"), "network", None),
        (Script(text="x", cut_at=0), "network", None),
        (Script(text="x", finish=None, done=False), "network", None),
        (Script(text="x" * 50, pieces=5, damage_at=3), "network", None),
        (Script(text="x" * 50, pieces=5, error_at=3), "server", None),
        (Script(text="x", headers={"content-type": "text/html"}), "refused", None),
    ],
    ids=lambda value: "" if isinstance(value, Script) else str(value),
)
async def test_each_fault_has_its_kind(play: Any, script: Script, kind: str, retry_after: float | None) -> None:
    """Every fault is a `ModelError` of the right kind that names the key and never holds it."""
    _, provider = await play(script)
    error = await failure(provider)
    assert (error.kind, error.retry_after, error.credential) == (kind, retry_after, "OPENAI_API_KEY")


async def test_an_answer_needs_only_one_kind_of_end(play: Any) -> None:
    """A finish reason without `[DONE]`, or `[DONE]` without a finish reason, is a whole answer."""
    _, provider = await play(Script(text="a", done=False), Script(text="b", finish=None))
    assert [said(await answer(provider)) for _ in range(2)] == ["a", "b"]


async def test_an_answer_that_is_not_streamed(play: Any) -> None:
    """A server that ignores the wish for a stream is understood."""
    calls = (ScriptedCall(name="file_read", arguments={"path": "x"}),)
    _, provider = await play(Script(text="a", whole=True), Script(calls=calls, whole=True))
    assert await answer(provider) == [TextDelta("a"), Usage(input=10, output=5), Stop("end")]
    assert (await answer(provider))[0] == ToolCall("call_0", "file_read", {"path": "x"})


async def test_nothing_listens(family: MakeFamily) -> None:
    """A refused connection is a network failure that says where, and what to check."""
    async with ScriptedOpenAI() as server:
        url = server.url
    provider = family({"OPENAI_BASE_URL": url, "OPENAI_MODEL": "m"})["custom"]
    error = await failure(provider)
    assert (error.kind, error.credential) == ("network", "")
    assert url in error.message
    assert error.advice == "Check that it runs."


async def test_a_host_that_is_unknown(family: MakeFamily) -> None:
    """A host name that nobody knows is a network failure in a sentence."""
    provider = family({"OPENAI_BASE_URL": "http://models.invalid/v1", "OPENAI_API_KEY": KEY})["custom"]
    error = await failure(provider)
    assert error.kind == "network"
    assert "models.invalid" in error.message


async def test_tls_against_a_plain_server(family: MakeFamily) -> None:
    """A server that does not speak TLS is a wrong base URL, not a hiccup."""

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        error = await failure(family({"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY})["custom"])
    assert (error.kind, error.advice) == ("refused", "Check the base URL and its certificate.")


@pytest.mark.parametrize("tail", ["", "/", "/chat/completions"])
async def test_every_way_to_write_the_base_url(family: MakeFamily, tail: str) -> None:
    """The base URL works with and without a slash, and with the path of the call."""
    async with ScriptedOpenAI([Script(text="x")]) as server:
        provider = family({"OPENAI_BASE_URL": server.url + tail, "OPENAI_MODEL": "m"})["custom"]
        assert said(await answer(provider)) == "x"
        assert "authorization" not in server.completions[0].headers


@pytest.mark.parametrize("script", [Script(text="a b c", pieces=3, delay=30), Script(text="abc", hang_at=2)])
async def test_closing_the_generator_closes_the_connection(play: Any, script: Script) -> None:
    """Who stops reading is gone for the server at once."""
    server, provider = await play(script)
    stream = provider.stream(question())
    first = await anext(stream) if script.hang_at else None
    if first is None:
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.wait({waiting}, timeout=0.3)
        waiting.cancel()
        await asyncio.wait({waiting})
    await stream.aclose()
    await asyncio.wait_for(server.completions[0].over.wait(), 5)
    assert server.completions[0].ended == "gone"


async def test_there_is_no_bound_on_the_whole(play: Any) -> None:
    """A slow first token is waited for: who asks bounds the time without data."""
    _, provider = await play(Script(text="late", first_delay=1.2))
    assert said(await answer(provider)) == "late"


async def test_a_connection_is_used_again(play: Any) -> None:
    """Calls one after the other share one connection, which saves a handshake each."""
    server, provider = await play(*[Script(text="x")] * 4)
    for _ in range(4):
        await answer(provider)
    assert len(server.completions) == 4
    assert len(server._connections) == 1


async def test_a_failed_call_harms_no_later_one(play: Any) -> None:
    """After each fault the next call works."""
    faults = [Script(text="x", cut_at=1), Script(status=500), Script(text="xx", pieces=2, damage_at=1)]
    _, provider = await play(*[each for fault in faults for each in (fault, Script(text="well"))])
    for _ in faults:
        await failure(provider)
        assert said(await answer(provider)) == "well"


async def test_many_calls_at_once(play: Any) -> None:
    """More calls run at once than a client's usual pool holds, none waiting for another."""
    _, provider = await play(responder=lambda request: Script(text=request.question, first_delay=0.5))
    loop = asyncio.get_running_loop()
    start = loop.time()
    answers = await asyncio.gather(*(answer(provider, question(str(number))) for number in range(150)))
    assert [said(each) for each in answers] == [str(number) for number in range(150)]
    assert loop.time() - start < 10


def everything_in(error: BaseException) -> str:
    seen: list[str] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is not None:
            seen += [repr(found), str(found), repr(vars(found)), *traceback.format_exception(found)]
            waiting += [found.__context__, found.__cause__]
    return "\n".join(seen)


@pytest.mark.parametrize(
    "script",
    [
        Script(status=401, body=f'{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}'),
        Script(status=500, body=f"Bearer {KEY} was no good"),
        Script(text="x", cut_at=1),
        Script(text="x", cut_at=0, cut="abort"),
        Script(text="xx", pieces=2, damage_at=1),
    ],
)
async def test_a_key_is_in_no_error_and_no_log(play: Any, script: Script, caplog: pytest.LogCaptureFixture) -> None:
    """A key is in no message, repr, attribute, cause or traceback of an error, even if the server repeats it."""
    caplog.set_level(logging.DEBUG)
    server, provider = await play(script)
    error = await failure(provider)
    assert server.completions[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in everything_in(error)
    assert KEY not in caplog.text
    assert KEY not in repr(await provider.offers())


async def test_an_agents_endpoint_must_be_the_vendors(play: Any, family: MakeFamily) -> None:
    """An endpoint from an agent's file gets no request, and so no key, unless it is the vendor's own server."""
    server, provider = await play(Script(text="x"))
    async with ScriptedOpenAI() as other:
        error = await failure(provider, question(endpoint=other.url))
        assert (error.kind, other.requests) == ("refused", [])
        assert "is no endpoint of" in error.message
    assert said(await answer(provider, question(endpoint=server.url + "/"))) == "x"


async def test_a_preset_endpoint_is_the_vendors(family: MakeFamily, home: Path) -> None:
    """A preset of the manifest may be asked for by an agent."""
    async with ScriptedOpenAI([Script(text="x")]) as server:
        (home / "global" / "models" / "kimi.yaml").write_text(f"id: kimi\nendpointPresets: [{server.url}]\n")
        provider = family({"KIMI_API_KEY": KEY})["kimi"]
        assert said(await answer(provider, question(endpoint=server.url))) == "x"


async def test_the_vendors_dialect_is_on_the_wire(family: MakeFamily, home: Path) -> None:
    """Kimi's bound, cache key and replayed reasoning are what its server gets."""
    async with ScriptedOpenAI([Script(text="x")]) as server:
        (home / "global" / "models" / "kimi.yaml").write_text(f"id: kimi\ndefaultEndpoint: {server.url}\n")
        provider = family({"KIMI_API_KEY": KEY})["kimi"]
        history = (
            Message("user", (Text("a"),)),
            Message("assistant", (Thinking("because"), ToolCall("1", "file_read", {}))),
            Message("user", (ToolResult("1", "b"),)),
        )
        await answer(provider, question(model="kimi-k3", messages=history, session="s1"))
        body = server.completions[0].body
    assert (body["max_completion_tokens"], body["prompt_cache_key"]) == (131072, "s1")
    assert body["messages"][2]["reasoning_content"] == "because"


async def test_openai_follows_the_base_url(family: MakeFamily) -> None:
    """With a base URL set, `openai/…` goes there too, as everywhere else where that variable is known."""
    async with ScriptedOpenAI([Script(text="x")]) as server:
        provider = family({"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY})["openai"]
        assert said(await answer(provider)) == "x"


async def test_a_proxy_is_not_for_this_machine(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies from the environment are not asked for servers on this machine."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    _, provider = await play(Script(text="x"))
    assert said(await answer(provider)) == "x"


async def test_an_event_without_end(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that floods one event is refused before it fills the memory."""
    monkeypatch.setattr("halo_lib_wire.vendors.provider.SseParser", lambda: SseParser(limit=1000))
    _, provider = await play(Script(text="x" * 5000, write_size=500))
    assert (await failure(provider)).kind == "refused"


async def test_received_requests_are_recorded(play: Any) -> None:
    """The server remembers how each answer ended."""
    server, provider = await play(Script(text="x"), Script(text="x", cut_at=1))
    await answer(provider)
    await failure(provider)
    requests: list[Received] = server.completions
    assert [each.ended for each in requests] == ["whole", "cut"]
