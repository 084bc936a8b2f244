"""Turns as their journal and the model's history tell them: order, pairs, cuts, stamps, and what changes a session."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    AssistantDiscarded,
    AssistantMessage,
    Call,
    Incoming,
    InputAdded,
    Kernel,
    Message,
    Mode,
    ModelRequest,
    NotFound,
    Session,
    SessionClosed,
    Text,
    ToolCall,
    ToolResult,
    TurnEnded,
    Update,
    UsageRecorded,
    View,
    repair_history,
)
from halo_kernel.folds import CUT_MARKER
from halo_kernel.repair import INTERRUPTED, NOT_RUN
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    Pieces,
    Postbox,
    ScriptedModel,
    Step,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)

MODES: list[Mode] = ["steer", "follow_up", "interrupt_soft", "interrupt_hard"]


async def ask(session: Session, text: str, **more: Any) -> str:
    return (await asyncio.wait_for(session.prompt(Incoming(text=text, **more)).result, 10)).text


async def view(session: Session) -> View:
    """Return what people see of a session."""
    found = View()
    for event in await journal(session):
        found.apply(event)
    return found


async def followed(session: Session) -> list[Update]:
    """Return what a follower is told from here to the end of a turn."""
    told: list[Update] = []
    async with aclosing(session.events(live=True)) as live:
        async for update in live:
            if update.event is None or update.event.turn:
                told.append(update)
            if update.event is not None and isinstance(update.event.body, TurnEnded):
                break
    return told


def texts(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, Text)]


def check(messages: Sequence[Message]) -> None:
    """See that a provider takes these: sides alternate, the results of an answer's calls follow it, repair is done."""
    assert [message.role for message in messages] == [("user", "assistant")[n % 2] for n in range(len(messages))]
    assert messages[-1].role == "user"
    for said, following in pairwise(messages):
        calls = [block.id for block in said.content if isinstance(block, ToolCall)]
        results = [block.call for block in following.content if isinstance(block, ToolResult)]
        assert calls == results or following.role == "assistant"
    assert repair_history(messages) == messages


@pytest.mark.parametrize(("how", "told"), [("stop", ["run", "more"]), ("archive", ["run"]), ("delete", ["run"])])
async def test_what_a_halt_does_to_what_waits(tmp_path: Path, how: str, told: list[str]) -> None:
    """20: a stop writes what waits into the history before it ends the turn and runs nothing, an archive drops it, and
    nothing is written to a deleted session."""
    note, model = NoteTool(wait=lambda call: asyncio.sleep(60)), ScriptedModel([Calls([("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        await session.submit(Incoming(text="more", mode="follow_up"))
        where = {"workspace": session.info.workspace, "principal": OPERATOR}
        if how == "delete":
            await kernel.host.sessions.delete(session.info.id, **where)
        else:
            await getattr(session, how)()
        assert (await first.result).outcome == "cancelled"
        await asyncio.sleep(0.05)
        assert len(model.requests) == 1
        events = await session.seat.database.read(
            lambda tx: list(tx.execute("SELECT kind, json_extract(body, '$.text') FROM events ORDER BY seq"))
        )
        kinds, last = [kind for kind, _ in events], events[-1][0]
        assert [text for kind, text in events if kind == "input.added"] == told
        assert last == "turn.ended" and kinds.count("turn.ended") == 1
        if how == "stop":
            assert await ask(session, "go on") == "echo: go on"
            assert [texts(message) for message in model.requests[1].messages if message.role == "user"][-1] == [
                "more",
                "go on",
            ]
            return
        with pytest.raises(SessionClosed):
            await session.submit(Incoming(text="late"))
        if how == "delete":
            with pytest.raises((SessionClosed, NotFound)):
                await session.append("test.late", {})
            with pytest.raises(NotFound):
                await kernel.host.sessions.open(session.info.id, **where)
        count = await session.seat.database.read(lambda tx: tx.one("SELECT count(*) FROM events"))
        assert count == (len(events),)


async def test_calls_come_before_what_they_cost(tmp_path: Path) -> None:
    """23: the calls of an answer are told before its usage, and all of it is of one turn."""
    model = ScriptedModel([Calls([("note", {"text": "a"}), ("note", {"text": "b"})], text="look")])
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        told, _ = await asyncio.gather(followed(session), ask(session, "go"))
        events = [update.event for update in told if update.event is not None]
        answers = [(n, event.body) for n, event in enumerate(events) if isinstance(event.body, AssistantMessage)]
        assert [len(body.content) for _, body in answers] == [3, 1]
        for number, body in answers:
            usage = events[number + 1].body
            assert isinstance(usage, UsageRecorded) and usage.reply == body.reply
        assert len({event.turn for event in events}) == 1
        assert len({item.turn for item in (await view(session)).items.values()}) == 1


async def test_results_of_equal_calls_are_never_swapped(tmp_path: Path) -> None:
    """24: a result belongs to the call of its id, so those of equal calls are in their order for people and models."""
    answers = iter(["first", "second", "third"])

    def fail(call: Call) -> None:
        raise RuntimeError(next(answers))

    model = ScriptedModel([Calls([("note", {"text": "same"})] * 3)])
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool(wait=fail)]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "go")
        wanted = [f"Error: RuntimeError: {text}" for text in ("first", "second", "third")]
        said, following = model.requests[1].messages[-2:]
        results = {block.call: block.text for block in following.content if isinstance(block, ToolResult)}
        assert [results[block.id] for block in said.content if isinstance(block, ToolCall)] == wanted
        assert [item.text for item in (await view(session)).items.values() if item.kind == "tool"] == wanted


async def test_input_joins_the_users_last_message(tmp_path: Path) -> None:
    """25: new input joins a user's message that has no answer, be it a question or results: never two in a row."""
    held = asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    model = ScriptedModel([Fail("refused"), Calls([("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "first")
        second = session.prompt(Incoming(text="second"))
        await until(lambda: note.seen)
        await session.submit(Incoming(text="third", mode="steer"))
        held.set()
        await second.result
        asked = [request.messages for request in model.requests]
        assert [texts(message) for message in asked[1]] == [["first", "second"]]
        results = asked[2][-1]
        assert [type(block) for block in results.content] == [ToolResult, Text] and texts(results) == ["third"]


async def aborted(rnd: random.Random, home: Path) -> None:
    """Cut turns at random in every way there is, and see what the model is asked afterwards."""
    steps: list[Step] = [
        *[Calls([("note", {"text": "x"})] * number, text="so") for number in (1, 2, 4)],
        *[Pieces(["half ", "of it"], 0.002), Hang("half"), Fail("refused"), Answer("a")],
    ]
    model = ScriptedModel(responder=lambda request: rnd.choice(steps))
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.006))
    async with running_kernel(home / "home", model=model, tools=[note], clock=VirtualClock()) as kernel:
        session = await a_session(kernel, home / "w")
        for _ in range(8):
            running = session.prompt(Incoming(text="m", mode=rnd.choice(MODES)))
            await running.accepted
            await asyncio.sleep(rnd.random() * 0.01)
            match rnd.randrange(4):
                case 0:
                    session.interrupt()
                case 1:
                    running.cancel()
                case 2:
                    await session.stop()
                case _:
                    await session.submit(Incoming(text="now", mode="interrupt_hard"))
        steps[:] = [Answer("done")]
        await until(lambda: not session.interrupt() and session.info.state == "idle")
        assert await ask(session, "last") == "done"
    for request in model.requests:
        check(request.messages)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_any_abort_leaves_a_history_that_a_provider_takes(seed: int) -> None:
    """26: after any abort each call has its result right behind it, and a second repair changes nothing."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("halo_kernel.turns.batch._GRACE_SECONDS", 0.01)
        asyncio.run(aborted(random.Random(seed), Path(folder)))


async def test_what_a_stop_keeps_outlives_repair(tmp_path: Path) -> None:
    """27: each message that a stop kept is a block of its own in the history, which repair leaves in."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="run"))
        await until(lambda: model.active)
        for text in ("one", "two"):
            await session.submit(Incoming(text=text, mode="follow_up"))
        await session.stop()
        await running.result
        await ask(session, "three")
        (message,) = model.requests[-1].messages
        assert message.content == tuple(Text(text) for text in ("run", "one", "two", "three"))
        assert repair_history([message]) == (message,)


async def test_a_batch_that_is_cut_keeps_what_it_did(tmp_path: Path) -> None:
    """28: of a batch that is cut, finished results stay, the cut call is not to be repeated, the others may be."""
    note = NoteTool(wait=lambda call: asyncio.sleep(60 if call.arguments["text"] == "b" else 0))
    model = ScriptedModel([Calls([("note", {"text": text}) for text in "abc"])])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen == ["a", "b"])
        session.interrupt()
        await running.result
        await ask(session, "and?")
        found = [block.text for block in model.requests[1].messages[-1].content if isinstance(block, ToolResult)]
        assert found == ["noted a", INTERRUPTED, NOT_RUN] and note.seen == ["a", "b"]


async def test_what_was_said_before_an_interrupt_stays(tmp_path: Path) -> None:
    """29: what was streamed before a person's interrupt is the answer's block in the next request, marked as cut."""
    model = ScriptedModel([Hang("half of it")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="run"))
        await until(lambda: model.active)
        await asyncio.sleep(0.02)
        session.interrupt()
        await running.result
        await ask(session, "and?")
        asked = model.requests[1].messages
        assert [message.role for message in asked] == ["user", "assistant", "user"]
        assert asked[1].content == (Text(f"half of it\n\n{CUT_MARKER}"),)


async def test_what_a_failed_attempt_said_goes(tmp_path: Path) -> None:
    """29: what an attempt streamed before its connection broke is in no later request, and people see it no more."""
    model = ScriptedModel([Pieces(["lost words"], cut=True), Answer("good")])
    async with running_kernel(tmp_path / "home", model=model, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        told, said = await asyncio.gather(followed(session), ask(session, "go"))
        streamed = {update.delta.reply: update.delta.text for update in told if update.delta is not None}
        bodies = [update.event.body for update in told if update.event is not None]
        dropped = [body.reply for body in bodies if isinstance(body, AssistantDiscarded)]
        assert said == "good" and [streamed[reply] for reply in dropped] == ["lost words"]
        assert "lost words" not in str((await view(session)).items)
        await ask(session, "more")
        assert "lost words" not in str([request.messages for request in model.requests])


async def test_stamps_grow(tmp_path: Path) -> None:
    """31: the arrival stamps of a workspace's messages only grow, though they come in the same millisecond."""
    model = ScriptedModel(responder=lambda request: Answer("done"))
    async with running_kernel(tmp_path / "home", model=model, clock=VirtualClock()) as kernel:
        sessions = [await a_session(kernel, tmp_path / "w") for _ in range(2)]
        sent = [session.submit(Incoming(text="m")) for session in sessions * 10]
        receipts = sorted(await asyncio.gather(*sent), key=lambda receipt: receipt.row)
        assert all(one.at < two.at for one, two in pairwise(receipts))
        await until(lambda: all(session.info.state == "idle" for session in sessions))
        bodies = [event.body for session in sessions for event in await journal(session)]
        stamps = {body.row: body.stamp for body in bodies if isinstance(body, InputAdded)}
        ordered = [stamps[receipt.row] for receipt in receipts]
        assert ordered == sorted(set(ordered))


async def updated(kernel: Kernel, session: Session) -> int:
    database = kernel.workspaces.seats[session.info.workspace].database
    return await database.read(
        lambda tx: next(iter(tx.execute("SELECT updated_at FROM sessions WHERE id = ?", (session.info.id,))))[0]
    )


async def test_what_is_no_event_does_not_count_as_a_change(tmp_path: Path) -> None:
    """77: neither what is streamed nor what is delivered makes a session newer; the end of its turn does."""
    clock, going = VirtualClock(), asyncio.Event()
    post = Postbox(before=lambda part: going.wait())

    class Slow(list[str]):
        def __iter__(self) -> Any:
            for piece in ("a", "b", "c"):
                clock.advance(10)
                yield piece

    steps: list[Step] = [Pieces(Slow(), 0.05)]

    def respond(request: ModelRequest) -> Step:
        return steps[0]

    model = ScriptedModel(responder=respond)
    async with running_kernel(tmp_path / "home", model=model, extra={"post": post}, clock=clock) as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="go", route="post:me:here"))
        await until(lambda: model.active)
        began = await updated(kernel, session)
        kept: list[object] = []
        while not kept:
            kept = await session.seat.database.read(lambda tx: list(tx.execute("SELECT text FROM partials")))
            await asyncio.sleep(0.005)
        assert await updated(kernel, session) == began < clock.now()
        await running.result
        ended = (await journal(session))[-1]
        assert isinstance(ended.body, TurnEnded) and await updated(kernel, session) == ended.at > began
        clock.advance(60)
        going.set()
        await until(lambda: post.arrived)
        await asyncio.sleep(0.05)
        assert await updated(kernel, session) == ended.at
