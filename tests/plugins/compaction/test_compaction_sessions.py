"""Conversations that grow too long: shortened by themselves, on request and after an overflow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from halo_kernel import (
    CLEARED_MARKER,
    ContextCut,
    Event,
    Foreign,
    Incoming,
    ModelError,
    ModelRequest,
    Session,
    Text,
    ToolResult,
    ToolSpec,
    UsageRecorded,
    View,
    repair_history,
)
from halo_kernel.testing import Answer, Calls, Fail, Hang, NoteTool, Step, Workbench, journal, until

SUMMARY = "[Conversation Summary — {} messages compacted]\nthey talked"


class Grep:
    """A tool whose results can be had again."""

    spec = ToolSpec(name="grep", description="search", parameters={"type": "object"}, effect="read", replay_safe=True)

    async def run(self, call: Any) -> str:
        return f"found {call.arguments['text']}"


def said(request: ModelRequest) -> list[str]:
    return [block.text for message in request.messages for block in message.content if isinstance(block, Text)]


async def talk(halo: Workbench, session: Session, count: int, text: str = "word") -> None:
    for number in range(count):
        assert (await halo.ask(f"{text} {number}", session=session)).outcome == "succeeded"
    await until(lambda: session.info.state == "idle")


def notices(events: list[Event]) -> list[str]:
    """Return what people are told of compactions."""
    bodies = [event.body for event in events]
    return [
        body.text
        for body in bodies
        if isinstance(body, ContextCut) or (isinstance(body, Foreign) and body.kind.startswith("compaction."))
    ]


def cuts(events: list[Event]) -> list[ContextCut]:
    return [event.body for event in events if isinstance(event.body, ContextCut)]


# On request


async def test_a_summary_stands_in_for_the_older_messages(halo: Workbench) -> None:
    """The same agent summarises all of it; the model goes on from the summary and the last five messages."""
    session = await halo.session()
    await talk(halo, session, 5)
    assert await session.compact()
    request = halo.model.requests[-1]
    assert request.purpose == "compaction"
    assert request.messages[:9] == halo.model.requests[-2].messages[:9] and "earlier summary" in said(request)[-1]
    events = await journal(session)
    assert [(event.body.purpose, event.turn) for event in events if isinstance(event.body, UsageRecorded)][-1] == (
        "compaction",
        "",
    )
    assert notices(events) == ["Compacting context (1K tokens)…", "Context compacted: 5 older messages summarized"]
    assert (await halo.ask("and now?", session=session)).text == "echo: and now?"
    texts = said(halo.model.requests[-1])
    assert texts == [SUMMARY.format(5), "echo: word 2", "word 3", "echo: word 3", "word 4", "echo: word 4", "and now?"]


@pytest.mark.parametrize("reason", ["manual", "threshold"])
async def test_36_few_messages_are_left_alone(halo: Workbench, reason: str) -> None:
    """36 A conversation of no more than `compact.keep_messages` messages is not compacted, and nobody is told."""
    session = await halo.session()
    await talk(halo, session, 2, "w" * (3200 if reason == "threshold" else 4))
    asked = len(halo.model.requests)
    assert not await session.compact()
    assert len(halo.model.requests) == asked and notices(await journal(session)) == []


async def test_a_failed_one_on_request_changes_nothing(halo: Workbench) -> None:
    """39 If a summary that was asked for fails, who asked gets the error, and the conversation is as it was."""
    session = await halo.session()
    await talk(halo, session, 4)
    halo.model.then(Fail("refused", "not today"))
    with pytest.raises(ModelError, match="not today"):
        await session.compact()
    events = await journal(session)
    assert cuts(events) == []
    assert notices(events) == ["Compacting context (1K tokens)…", "Compaction failed — context unchanged"]
    await halo.ask("next", session=session)
    assert "word 0" in said(halo.model.requests[-1])


async def test_no_summary_is_no_compaction(halo: Workbench) -> None:
    """A model that answers with calls alone has given no summary; on request that changes nothing."""
    session = await halo.session()
    await talk(halo, session, 4)
    halo.model.then(Calls([("grep", {})]))
    assert not await session.compact()
    events = await journal(session)
    assert notices(events)[1:] == ["Compaction skipped — no summary produced"] and cuts(events) == []


@pytest.mark.parametrize("how", ["interrupt", "stop"])
async def test_one_on_request_can_be_cancelled(halo: Workbench, how: str) -> None:
    """An interrupt or a stop ends the model call; the conversation is as it was, and people are told."""
    session = await halo.session()
    await talk(halo, session, 4)
    halo.model.then(Hang())
    compacting = asyncio.ensure_future(session.compact())
    await until(lambda: halo.model.active)
    if how == "stop":
        await session.stop()
    else:
        assert session.interrupt()
    assert not await asyncio.wait_for(compacting, 5)
    assert halo.model.active == 0

    async def told() -> list[str]:
        return notices(await journal(session))

    for _ in range(200):
        if len(await told()) == 2:
            break
        await asyncio.sleep(0.01)
    assert await told() == ["Compacting context (1K tokens)…", "Compact cancelled"]
    assert cuts(await journal(session)) == []


async def test_40_what_comes_meanwhile_is_answered_next(halo: Workbench) -> None:
    """40 A message sent during a compaction is answered once when that has ended, without anybody asking again."""
    session = await halo.session()
    await talk(halo, session, 4)
    halo.model.then(Hang("slow"))
    compacting = asyncio.ensure_future(session.compact())
    await until(lambda: halo.model.active)
    prompt = session.prompt(Incoming(text="meanwhile"))
    await prompt.accepted
    assert halo.model.active == 1 and len([r for r in halo.model.requests if "meanwhile" in said(r)]) == 0
    session.interrupt()
    assert not await compacting
    assert (await asyncio.wait_for(prompt.result, 5)).text == "echo: meanwhile"
    assert len([r for r in halo.model.requests if "meanwhile" in said(r)]) == 1


# By itself


async def test_a_long_conversation_is_compacted_before_the_next_call(halo: Workbench) -> None:
    """Past nine tenths of the context a summary is made, people are told, and the turn goes on."""
    session = await halo.session()
    await talk(halo, session, 6, "w" * 1100)
    texts = notices(await journal(session))
    assert texts and texts[0].startswith("Compacting context (4K") and texts[1].startswith("Auto-compacted ")
    assert len(halo.model.requests) > 6
    await halo.ask("and now?", session=session)
    assert said(halo.model.requests[-1])[0].startswith("[Conversation Summary — ")


@pytest.mark.parametrize("failure", [Fail("refused", "no " * 60), Calls([("grep", {})])])
async def test_39_a_failed_one_falls_back_without_a_model(halo: Workbench, failure: Step) -> None:
    """39 If the model gives no summary, the beginnings of the messages stand in, and people are told why."""
    session = await halo.session()
    halo.model.responder = lambda request: failure if request.purpose == "compaction" else Answer("w" * 1000)
    await talk(halo, session, 5, "v" * 1900)
    events = await journal(session)
    cut = cuts(events)[0]
    assert "(local fallback — LLM summary failed: " in cut.text and len(cut.text) < 160
    head, first, *_ = cut.replacement.splitlines()
    assert head == f"[Conversation Summary — {cut.text.split()[1]} messages compacted (local fallback)]"
    assert first.startswith("[user]: vvv")
    assert all(len(line) <= len("[assistant]: ") + 800 for line in cut.replacement.splitlines())


async def test_34_an_overflow_asks_no_model(halo: Workbench) -> None:
    """34 What the provider refuses as too long is shortened locally, without a summary, and asked again."""
    halo.model.offered = 100_000  # type: ignore[attr-defined]
    session = await halo.session()
    await talk(halo, session, 5, "w" * 2000)
    assert {request.purpose for request in halo.model.requests} == {"turn"}
    events = await journal(session)
    assert notices(events) == [cut.text for cut in cuts(events)] != []
    assert "(local fallback — the context was too long for the model)" in cuts(events)[0].text
    assert not any(event.kind == "turn.ended" and event.body.outcome == "failed" for event in events)  # type: ignore[union-attr]


async def test_an_overflow_that_nothing_helps_is_an_error(halo: Workbench) -> None:
    """One message that is too long for the model fails as such; a shorter one goes through."""
    session = await halo.session()
    result = await halo.ask("w" * 18000, session=session)
    assert (result.outcome, result.kind) == ("failed", "overflow")
    result = await halo.ask("w" * 18000, session=session)
    assert (result.outcome, result.kind) == ("failed", "overflow")


async def test_38_only_the_newest_result_keeps_its_text(halo: Workbench) -> None:
    """38 Of the results that stay and can be had again only the newest keeps its text; calls and ids stay."""
    await halo.start(tools=[Grep(), NoteTool()])
    session = await halo.session()
    await talk(halo, session, 3)
    calls = [("grep", {"text": "one"}), ("note", {"text": "kept"}), ("grep", {"text": "two"})]
    halo.model.then(Calls(calls), Calls([("grep", {"text": "three"})]), Answer("done"))
    await halo.ask("search", session=session)
    assert await session.compact()
    await halo.ask("next", session=session)
    request = halo.model.requests[-1]
    results = [block.text for m in request.messages for block in m.content if isinstance(block, ToolResult)]
    assert [text for text in results if text.startswith(("found", CLEARED_MARKER))] == [
        CLEARED_MARKER,
        CLEARED_MARKER,
        "found three",
    ]
    assert len(results) == 4
    assert repair_history(request.messages) == request.messages


async def test_37_the_tail_begins_with_no_result(halo: Workbench) -> None:
    """37 What is kept begins with no tool's result, and the wish for a summary is nowhere in the history."""
    await halo.start(tools=[Grep()])
    session = await halo.session()
    halo.model.then(*[Calls([("grep", {"text": "x"})]) for _ in range(4)], Answer("done"))
    await halo.ask("search", session=session)
    halo.model.responder = lambda request: Answer("they talked")
    assert await session.compact()
    await halo.ask("next", session=session)
    request = halo.model.requests[-1]
    assert not isinstance(request.messages[0].content[0], ToolResult)
    assert [block for block in request.messages[0].content if isinstance(block, ToolResult)] == []
    assert not any("earlier summary" in text for text in said(request))


async def test_what_people_see_is_not_shortened(halo: Workbench) -> None:
    """All that was said stays in the view; a notice carries the summary."""
    session = await halo.session()
    await talk(halo, session, 4)
    await session.compact()
    view = View()
    for event in await journal(session):
        view.apply(event)
    assert [item.text for item in view.items.values() if item.kind == "user"] == [f"word {n}" for n in range(4)]
    assert [item.text for item in view.items.values() if item.kind == "notice"][-1] == (
        "Context compacted: 3 older messages summarized\n\n" + SUMMARY.format(3)
    )


async def test_a_huge_newest_message_costs_no_summary_at_each_step(halo: Workbench) -> None:
    """When it is the kept messages that fill the context, no summary of the few others is made again and again."""
    session = await halo.session()
    await talk(halo, session, 4)
    halo.model.then(Answer("w" * 13000))
    await halo.ask("write a lot", session=session)
    await until(lambda: session.info.state == "idle")
    assert [request.purpose for request in halo.model.requests].count("compaction") == 0


async def test_settings_say_what_is_kept(halo: Workbench) -> None:
    """`compact.keep_messages` is how many of the newest messages stay."""
    await halo.start(env={"HALO_COMPACT_KEEP_MESSAGES": "2"})
    session = await halo.session()
    await talk(halo, session, 4)
    assert await session.compact()
    await halo.ask("next", session=session)
    assert said(halo.model.requests[-1]) == [SUMMARY.format(6), "word 3", "echo: word 3", "next"]
