"""Long conversations at random: short and long messages, tools, compactions and restarts, with a strict model."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from halo_kernel import ContextCut, InputAdded, ModelError, ModelRequest, Text, ToolResult, ToolSpec
from halo_kernel.testing import Answer, Calls, Fail, Step, Workbench, journal, until


class Look:
    """A tool with a result of some length."""

    spec = ToolSpec(name="grep", description="look", parameters={"type": "object"}, effect="read", replay_safe=True)

    async def run(self, call: Any) -> str:
        return "found " * int(call.arguments["size"])


def said(request: ModelRequest) -> list[str]:
    return [block.text for message in request.messages for block in message.content if isinstance(block, Text)]


def answering(random: Random) -> Any:
    """Answer at random: with tools for some steps, with summaries or without, now and then as too long."""

    def answer(request: ModelRequest) -> Step:
        if request.purpose == "compaction":
            return random.choice([Answer("they talked"), Answer("they talked"), Fail("refused"), Calls([("grep", {})])])
        results = sum(isinstance(block, ToolResult) for block in request.messages[-1].content)
        if random.random() < (0.2 if results else 0.5):
            calls = random.randint(1, 3)
            return Calls([("grep", {"size": random.choice([1, 100])}) for _ in range(calls)])
        return Answer("well " * random.choice([1, 200]))

    return answer


@pytest.mark.parametrize("seed", range(6))
async def test_every_message_is_answered_once_from_a_valid_history(halo: Workbench, seed: int) -> None:
    """Whatever happens, each turn succeeds, its message is in the call that answers it, and none is consumed twice."""
    random = Random(seed)
    halo.model.responder = answering(random)
    await halo.start(tools=[Look()])
    asked: list[str] = []
    for number in range(14):
        session = await halo.session("talk_1")
        if random.random() < 0.15:
            await until(lambda: session.info.state == "idle")  # noqa: B023
            if random.random() < 0.5:
                with suppress(ModelError):  # of a summary that was asked for
                    await session.compact()
            else:
                await halo.start(tools=[Look()])
                session = await halo.session("talk_1")
        asked.append(f"question {number} " + "x" * random.choice([1, 1, 900]))
        result = await halo.ask(asked[-1], session=session)
        assert (result.outcome, result.error) == ("succeeded", "")
        assert any(asked[-1] in text for text in said([r for r in halo.model.requests if r.purpose == "turn"][-1]))
    bodies = [event.body for event in await journal(await halo.session("talk_1"))]
    assert [body.text for body in bodies if isinstance(body, InputAdded)] == asked
    assert any(isinstance(body, ContextCut) for body in bodies)
