"""Whole conversations: a kernel, the plugin, and a scripted server of the Messages API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import pytest

from halo_kernel import AssistantMessage, ModelErrorKind, Thinking, UsageRecorded
from halo_kernel.testing import ModelContract, NoteTool, Workbench, assert_plugin_ok, journal
from halo_kernel.testing.anthropic_server import Script, ScriptedAnthropic, ScriptedCall

FAULTS: Mapping[ModelErrorKind, Script] = {
    "throttle": Script(status=429, headers={"retry-after": "1"}),
    "server": Script(status=529),
    "network": Script(text="half of it", pieces=4, cut_at=4, cut="abort"),
    "account": Script(status=401),
    "refused": Script(status=400),
}


def environment(server: ScriptedAnthropic, **more: str) -> dict[str, str]:
    named = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-0123456789"}
    return {**named, "HALO_MODEL_DEFAULT": "anthropic/claude-sonnet-5", **more}


@pytest.fixture
def halo_plugins() -> list[str]:
    return ["halo_anthropic"]


def test_the_plugin_keeps_the_rules() -> None:
    """It loads, declares what it imports, and imports its own modules relatively."""
    assert_plugin_ok("halo_anthropic")


class TestAnthropic(ModelContract):
    provider_name = "anthropic"
    faults = tuple(FAULTS)
    can_hang = True

    @pytest.fixture
    async def provider_env(self) -> AsyncGenerator[Mapping[str, str], None]:
        async with ScriptedAnthropic() as self.server:
            yield environment(self.server)

    def fail_next(self, kind: ModelErrorKind) -> None:
        self.server.scripts.append(FAULTS[kind])

    def hang_next(self) -> None:
        self.server.scripts.append(Script(text="a b c", pieces=3, hang_at=4))


async def test_a_conversation_with_a_tool_round(halo: Workbench) -> None:
    """Parallel calls run and their results go back under the server's ids, with the thinking that led to them."""
    calls = tuple(ScriptedCall(name="note", arguments={"text": text}, id=f"toolu_{text}") for text in ("one", "two"))
    scripts = [
        Script(thinking="Two notes.", redacted="opaque==", text="I write.", pieces=2, calls=calls),
        Script(text="Both are written.", usage={"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 40}),
        Script(text="You are welcome."),
    ]
    tool = NoteTool()
    async with ScriptedAnthropic(scripts) as server:
        await halo.start(tools=[tool], env=environment(server))
        session = await halo.session()
        results = [await halo.ask(text, session=session) for text in ("note one and two", "thanks")]
        events = [event.body for event in await journal(session)]
    assert [result.text for result in results] == ["Both are written.", "You are welcome."]
    assert sorted(map(str, tool.seen)) == ["one", "two"]
    first, second, third = (request.body for request in server.completions)
    assert [block["name"] for block in first["tools"]] == ["note"]
    asked, back, noted = second["messages"]
    kinds = ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    assert [block["type"] for block in back["content"]] == kinds
    found = [(block["tool_use_id"], block["content"]) for block in noted["content"]]
    assert found == [("toolu_one", "noted one"), ("toolu_two", "noted two")]
    assert (third["messages"][1], len(third["messages"])) == (back, 5)
    assert {name: block for name, block in third["messages"][0].items() if name == "role"} == {"role": asked["role"]}
    answers = [body for body in events if isinstance(body, AssistantMessage)]
    assert [answer.stop for answer in answers] == ["tools", "end", "end"]
    assert [body.cache_read for body in events if isinstance(body, UsageRecorded)] == [0, 40, 0]


async def test_thinking_that_nobody_can_read_goes_back(halo: Workbench) -> None:
    """Thinking that comes redacted only is kept and goes back, though there is nothing to show of it."""
    scripts = [Script(redacted="opaque==", calls=(ScriptedCall(name="note", id="toolu_a"),)), Script(text="done")]
    async with ScriptedAnthropic(scripts) as server:
        await halo.start(tools=[NoteTool()], env=environment(server))
        session = await halo.session()
        await halo.ask("note it", session=session)
        events = [event.body for event in await journal(session)]
    kept = next(body.content[0] for body in events if isinstance(body, AssistantMessage))
    assert isinstance(kept, Thinking) and kept.text == ""
    assert server.completions[1].body["messages"][1]["content"][0] == {"type": "redacted_thinking", "data": "opaque=="}


async def test_pings_hold_the_idle_timeout_off(halo: Workbench) -> None:
    """A model that takes longer than the idle timeout is waited for while its server pings."""
    async with ScriptedAnthropic([Script(text="late", pings=6, delay=0.25)]) as server:
        await halo.start(env=environment(server, HALO_MODEL_IDLE_TIMEOUT="1"))
        assert (await halo.ask("hello")).text == "late"
    assert len(server.completions) == 1


async def test_a_server_that_fails_is_asked_again(halo: Workbench) -> None:
    """The kernel asks again after 529, a cut stream and a damaged chunk, and the answer is whole."""
    cut = Script(text="x" * 9, pieces=3, cut_at=4)
    faults = [Script(status=529, headers={"retry-after": "0"}), cut, Script(text="x", damage_at=2)]
    async with ScriptedAnthropic([*faults, Script(text="here")]) as server:
        await halo.start(env=environment(server))
        assert (await halo.ask("hello")).text == "here"
    assert len(server.completions) == 4
