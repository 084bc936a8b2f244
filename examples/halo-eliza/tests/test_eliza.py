"""What is asked and understood, what goes wrong, and where the key goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import pytest

from eliza_server import KEY, ElizaServer
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
    ToolCall,
    ToolFinished,
    Usage,
    UsageRecorded,
)
from halo_kernel.testing import NoteTool, Workbench, journal, until


def ask(text: str = "I am sad.", *, endpoint: str | None = None) -> ModelRequest:
    """Return a request."""
    return ModelRequest(model="doctor", system="", messages=(Message("user", (Text(text),)),), endpoint=endpoint)


async def answer(provider: ModelProvider, request: ModelRequest) -> list[Chunk]:
    """Return all that comes back."""
    return [chunk async for chunk in provider.stream(request)]


async def refusal(provider: ModelProvider, request: ModelRequest) -> ModelError:
    """Return the error of a call that fails."""
    with pytest.raises(ModelError) as caught:
        await answer(provider, request)
    return caught.value


async def provider_of(halo: Workbench, env: Mapping[str, str]) -> ModelProvider:
    """Return the provider of a new kernel."""
    await halo.start(env=env)
    return await halo.provider("eliza")


async def test_text_and_usage(halo: Workbench, env: Mapping[str, str]) -> None:
    """Text comes through whatever pieces it came in; cached tokens are told apart."""
    chunks = await answer(await provider_of(halo, env), ask("Ich bin müde 😴."))
    assert "".join(c.text for c in chunks if isinstance(c, TextDelta)) == "Why do you say: Ich bin müde 😴."
    assert chunks[-2:] == [Usage(input=5, output=3, cache_read=2), Stop("end")]


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a"', {MALFORMED: '{"a"'}),
        ("[1]", {MALFORMED: "[1]"}),
        ("", {}),
        (None, {}),
    ],
)
async def test_calls(
    halo: Workbench, env: Mapping[str, str], eliza: ElizaServer, given: object, got: dict[str, Any]
) -> None:
    """A call comes with its arguments, and with what the model wrote if these are none."""
    eliza.script = [[{"call": {"id": "c1", "name": "note", "arguments": given}}, {"done": "tools"}]]
    assert await answer(await provider_of(halo, env), ask()) == [ToolCall("c1", "note", got), Stop("tools")]


@pytest.mark.parametrize(
    ("fault", "kind"), [("cut", "network"), ("silent", "network"), ("garbage", "server"), ("redirect", "refused")]
)
async def test_faults(halo: Workbench, env: Mapping[str, str], eliza: ElizaServer, fault: str, kind: str) -> None:
    """What goes wrong has its kind, a redirect is not followed, and the next call is answered."""
    provider = await provider_of(halo, env)
    eliza.script = [fault]
    assert (await refusal(provider, ask())).kind == kind
    assert (await answer(provider, ask()))[-1] == Stop("end")


async def test_an_answer_without_an_end_has_no_stop(
    halo: Workbench, env: Mapping[str, str], eliza: ElizaServer
) -> None:
    """It is not made up, so the kernel sees that the answer was cut."""
    eliza.script = ["short"]
    assert await answer(await provider_of(halo, env), ask()) == [TextDelta("Hm")]


async def test_a_throttle_says_when(halo: Workbench, env: Mapping[str, str], eliza: ElizaServer) -> None:
    """The server's wait goes on to the kernel."""
    eliza.script = ["throttle"]
    assert (await refusal(await provider_of(halo, env), ask())).retry_after == 1.0


async def test_connections_go(halo: Workbench, env: Mapping[str, str], eliza: ElizaServer) -> None:
    """One that is left early or cancelled is closed, others are kept until the end."""
    provider = await provider_of(halo, env)
    eliza.script = ["hang", "hang"]
    async with aclosing(provider.stream(ask())) as chunks:
        assert await anext(chunks) == TextDelta("Hm")
        assert await anext(chunks) == TextDelta("")
        assert eliza.connections == 1
    await until(lambda: eliza.connections == 0)
    task = asyncio.create_task(answer(provider, ask()))
    await until(lambda: len(eliza.requests) == 2)
    task.cancel()
    await until(lambda: eliza.connections == 0)
    for _ in range(2):
        await answer(provider, ask())
    await provider.close()
    await until(lambda: eliza.connections == 0)


async def test_offers(halo: Workbench, env: Mapping[str, str], eliza: ElizaServer) -> None:
    """A model is ready with a key, or when the server answers; the key's name goes with it."""
    provider = await provider_of(halo, {"HALO_ELIZA_MODELS": '["doctor", "nurse"]'})
    assert [(o.model, o.ready) for o in await provider.offers()] == [("eliza/doctor", False), ("eliza/nurse", False)]
    provider = await provider_of(halo, {"HALO_ELIZA_BASE_URL": eliza.url})
    assert [(o.ready, o.rank, o.credential) for o in await provider.offers()] == [(True, 20, "")]
    provider = await provider_of(halo, {"HALO_ELIZA_BASE_URL": "http://127.0.0.1:9"})
    assert [o.ready for o in await provider.offers()] == [False]
    provider = await provider_of(halo, env)
    assert [(o.ready, o.rank, o.credential) for o in await provider.offers()] == [(True, 10, "eliza.api_key")]


async def test_the_key_goes_to_its_own_server(halo: Workbench, env: Mapping[str, str], eliza: ElizaServer) -> None:
    """A server that an agent names gets no key, and has to be public or allowed; redirecting names does not help."""
    with ElizaServer(key="") as other:
        provider = await provider_of(halo, env)
        for url in (other.url, other.url.replace("127.0.0.1", "localhost")):
            error = await refusal(provider, ask(endpoint=url))
            assert (error.kind, other.requests) == ("refused", []), error
            assert "egress.allow" in error.advice
        provider = await provider_of(halo, {**env, "HALO_EGRESS_ALLOW": '["127.0.0.1"]'})
        assert (await answer(provider, ask(endpoint=other.url)))[-1] == Stop("end")
        assert other.keys == [""]
        await answer(provider, ask(endpoint=f"{eliza.url}/"))
        assert eliza.keys == [f"Bearer {KEY}"]


async def test_a_conversation_with_a_tool(halo: Workbench, env: Mapping[str, str], eliza: ElizaServer) -> None:
    """A call, its result and the answer go back and forth; what fails at first is tried again."""
    note = NoteTool()
    eliza.script = [
        "server",
        [
            {"text": "I write it down."},
            {"call": {"id": "c1", "name": "note", "arguments": {"text": "sad"}}},
            {"usage": {"input": 10, "output": 5}},
            {"done": "tools"},
        ],
        [{"text": "Tell me more."}, {"usage": {"input": 20, "output": 3, "cached": 10}}, {"done": "end"}],
    ]
    await halo.start(env={**env, "HALO_MODEL_DEFAULT": "eliza/doctor"}, tools=[note])
    session = await halo.session()
    result = await halo.ask("I am sad.", session=session)
    assert (result.outcome, result.text) == ("succeeded", "Tell me more."), result
    bodies = [event.body for event in await journal(session)]
    assert [(b.name, b.outcome) for b in bodies if isinstance(b, ToolFinished)] == [("note", "ok")]
    used = [(b.model, b.input, b.output, b.cache_read) for b in bodies if isinstance(b, UsageRecorded)]
    assert used == [("eliza/doctor", 10, 5, 0), ("eliza/doctor", 10, 3, 10)]
    last = eliza.requests[-1]
    assert [tool["name"] for tool in last["tools"]] == ["note"]
    call, done = last["messages"][-2]["call"], last["messages"][-1]["result"]
    assert done == {"id": call["id"], "text": "noted sad", "error": False}  # the id is the kernel's own


async def test_a_wrong_key_is_named_and_not_shown(halo: Workbench, env: Mapping[str, str]) -> None:
    """A server that echoes the key gives it to nobody: the kernel masks it, and names the setting."""
    wrong = "wrong-key-9876543210"
    await halo.start(env={**env, "HALO_MODEL_DEFAULT": "eliza/doctor", "ELIZA_API_KEY": wrong})
    session = await halo.session()
    result = await halo.ask("I am sad.", session=session)
    assert (result.outcome, result.kind) == ("failed", "account"), result
    assert "eliza.api_key" in result.error
    assert wrong not in f"{result} {await journal(session)}"
