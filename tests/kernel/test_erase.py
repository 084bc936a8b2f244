"""Erasing: what was said is nowhere any more, and what was not erased is as it was."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    OPERATOR,
    BadInput,
    Call,
    Conflict,
    ContextCut,
    ContextErased,
    Event,
    Foreign,
    Incoming,
    InputAdded,
    Kernel,
    LeaseHeld,
    ModelRequest,
    NotFound,
    Pointer,
    Principal,
    Question,
    Session,
    ToolSpec,
    TurnEnded,
    UsageRecorded,
    View,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    Postbox,
    Refused,
    ScriptedModel,
    Step,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)

SECRET = "the-heron-nests-at-dawn"
HERE = "post:me:here"


class AskTool:
    """Asks about a secret before it runs, and tells it."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text=f"Shall I tell {SECRET}?", options=(SECRET, "no"), expires_in=60))
        return f"told {SECRET}"


def database(kernel: Kernel, session: Session) -> Any:
    return kernel.workspaces.seats[session.info.workspace].database


async def erase(kernel: Kernel, session: Session, start: int, end: int, **options: Any) -> Event:
    where = {"workspace": session.info.workspace, "principal": OPERATOR, **options}
    return await kernel.host.sessions.erase(session.info.id, start=start, end=end, **where)


def turns(events: list[Event]) -> list[tuple[int, int]]:
    """Return the first and the last event of each turn."""
    found: dict[str, tuple[int, int]] = {}
    for event in events:
        if event.turn:
            found[event.turn] = (found.get(event.turn, (event.seq,))[0], event.seq)
    return list(found.values())


def holds(folder: Path, text: str) -> list[str]:
    """Return the files below a folder that hold a text anywhere."""
    found = [Path(root) / name for root, _, names in os.walk(folder) for name in names]
    return [path.name for path in found if text.encode() in path.read_bytes()]


async def ask(session: Session, text: str, **options: Any) -> str:
    return (await session.prompt(Incoming(text=text, **options)).result).outcome


def shown(request: ModelRequest) -> str:
    return repr(request.messages)


async def test_nothing_of_it_is_anywhere(tmp_path: Path) -> None:
    """Of a turn's message, title, call, result, question, failed attempt, reply, partial and blob nothing stays."""
    steps: list[Step] = [
        Fail("throttle", message=f"{SECRET}?", text=SECRET),
        Calls([("note", {"text": SECRET}), ("ask", {"about": SECRET})], text=SECRET),
        Answer(f"I know {SECRET}."),
    ]
    model, post = ScriptedModel(steps), Postbox()
    tools: list[Any] = [NoteTool(), AskTool()]
    async with running_kernel(tmp_path / "home", model=model, tools=tools, extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        workspace = session.info.workspace
        blob = await kernel.host.blobs.put(workspace, SECRET.encode(), media_type="text/plain")
        other = await kernel.host.blobs.put(workspace, b"something else", media_type="text/plain")
        await session.append("note.made", {"text": f"kept: {other.uri}"})
        pointer = Pointer(dispatcher="post", target="report")
        text = f"{SECRET} in {blob.uri} beside {other.uri}"
        turn = session.prompt(Incoming(text=text, key="k", route=HERE, reply_to=pointer))
        await until(lambda: session.info.state == "waiting")
        (asked,) = await kernel.host.questions.list(workspace=workspace, principal=OPERATOR)
        await kernel.host.questions.answer(
            asked.id, workspace=workspace, principal=OPERATOR, approved=True, text=f"yes, {SECRET}"
        )
        assert (await turn.result).outcome == "succeeded"
        await until(lambda: len(post.arrived) == 3)  # the question, the reply and the report
        await database(kernel, session).write(
            lambda tx: tx.execute("INSERT INTO partials VALUES (?, 't', 'r', ?)", (session.info.id, SECRET)) and None
        )
        assert await ask(session, "and now?") == "succeeded"
        head = len(await journal(session))
        await until(lambda: session.info.state == "idle")
        ((start, end), _) = turns(await journal(session))
        assert holds(tmp_path / "w", SECRET)
        event = await erase(kernel, session, start, end)
        assert (event.kind, event.body) == ("context.erased", ContextErased(start=start, end=end, by="operator"))
        assert event.seq == head + 2, "the title that is left comes first"
        assert holds(tmp_path / "w", SECRET) == []
        assert (await kernel.host.blobs.get(workspace, other.uri)) == b"something else"
        with pytest.raises(NotFound):
            await kernel.host.blobs.get(workspace, blob.uri)
        assert session.info.title == ""
        assert await ask(session, "what was it?") == "succeeded"
        assert SECRET not in shown(model.requests[-1]) and "echo: and now?" in shown(model.requests[-1])
        assert session.info.title == "what was it?"
        name = session.info.id
    assert holds(tmp_path / "w", SECRET) == [] and holds(tmp_path / "home", SECRET) == []
    async with running_kernel(tmp_path / "home", model=model, tools=tools, extra={"post": post}) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        assert await ask(session, "still not?") == "succeeded"
        assert SECRET not in shown(model.requests[-1])
        again = session.prompt(Incoming(text="again", key="k"))
        result = await asyncio.wait_for(again.result, 5)
        assert (result.outcome, result.text) == ("succeeded", ""), "how it ended is known, what it said is not"


async def test_kinds_and_numbers_stay(tmp_path: Path) -> None:
    """Every event keeps its place, kind and turn; its body says who erased it and when; usage and outcomes stay."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "one")
        await ask(session, "two")
        before = await journal(session)
        (_, (start, end)) = turns(before)
        event = await erase(kernel, session, start, end)
        after = await journal(session)
        assert after[-1] == event
        assert [(e.seq, e.at, e.kind, e.turn) for e in after[: len(before)]] == [
            (e.seq, e.at, e.kind, e.turn) for e in before
        ]
        for old, new in zip(before, after, strict=False):
            if not start <= old.seq <= end or isinstance(old.body, UsageRecorded | TurnEnded):
                assert new == old
            elif isinstance(new.body, Foreign):
                assert new.body.data == {"erased": True, "by": "operator", "at": event.at}
        assert {e.kind for e in after if isinstance(e.body, Foreign)} == {
            "turn.started",
            "input.added",
            "assistant.message",
        }
        assert await session.output() == "echo: one"


async def test_followers_and_the_next_turn_see_what_is_left(tmp_path: Path) -> None:
    """S47: who follows live comes to what a replay comes to, and so does the session that has its history in memory."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for text in ("one", SECRET, "three"):
            await ask(session, text)
        live, replayed = View(), View()
        updates = session.events(live=True)
        (_, (start, end), _) = turns(await journal(session))
        desk = session._desk  # type: ignore[attr-defined]
        event = await erase(kernel, session, start, end)
        async for update in updates:
            if update.event is not None:
                live.apply(update.event)
                if update.event.seq == event.seq:
                    break
        await updates.aclose()
        for each in await journal(session):
            replayed.apply(each)
        assert live == replayed and SECRET not in repr(replayed)
        assert session._desk is desk is not None, "it goes on with what it had"  # type: ignore[attr-defined]
        await ask(session, "four")
        texts = [block.text for message in model.requests[-1].messages for block in message.content]  # type: ignore[union-attr]
        assert texts == ["one", "echo: one", "three", "echo: three", "four"]


async def test_a_summary_goes_with_what_it_stands_for(tmp_path: Path) -> None:
    """A cut that covers an erased event still cuts, but says nothing; one that does not cover it stays."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for text in ("one", SECRET, "three"):
            await ask(session, text)
        first, second, third = turns(await journal(session))
        both, briefly = f"they spoke of {SECRET}", "three, briefly"
        for (start, _), (_, end), says in ((first, second, both), (third, third, briefly)):
            await session.write([ContextCut(start=start, end=end, replacement=says, reason=says)])  # type: ignore[attr-defined]
        await erase(kernel, session, *first)
        assert SECRET in repr(await journal(session)), "the turn itself was not erased"
        assert both not in repr(await journal(session))
        await erase(kernel, session, *second)
        assert SECRET not in repr(await journal(session))
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await kernel.host.sessions.open(session.info.id, workspace=session.info.workspace, principal=OPERATOR)
        await ask(session, "four")
        texts = [block.text for message in model.requests[-1].messages for block in message.content]  # type: ignore[union-attr]
        assert texts == [briefly, "four"]


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda start, end, head: (0, end), "1 to"),
        (lambda start, end, head: (end, start), "1 to"),
        (lambda start, end, head: (start, head + 1), "1 to"),
        (lambda start, end, head: (start + 1, end), "whole"),
        (lambda start, end, head: (start, end - 1), "whole"),
        (lambda start, end, head: (1, start), "whole"),
    ],
)
async def test_a_range_that_is_none_changes_nothing(
    tmp_path: Path, choose: Callable[[int, int, int], tuple[int, int]], says: str
) -> None:
    """It must be in the journal, in order, and cut no turn; the error says which range would do."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, "one")
        before = await journal(session)
        ((start, end),) = turns(before)
        with pytest.raises(BadInput, match=says) as caught:
            await erase(kernel, session, *choose(start, end, len(before)))
        assert caught.value.field == "start"
        assert await journal(session) == before
        assert await ask(session, "two") == "succeeded"


async def test_a_foreign_session_is_not_found(tmp_path: Path) -> None:
    """Only its owner erases in a session."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.raises(NotFound):
            await erase(kernel, session, 1, 1, principal=Principal(name="somebody"))


async def test_a_session_at_work_refuses(tmp_path: Path) -> None:
    """While a turn runs, or waits for a person, nothing is erased; at rest it is."""
    model = ScriptedModel([Hang("..."), Calls([("ask", {})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=[AskTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        with pytest.raises(Conflict):
            await erase(kernel, session, 1, 1)
        session.interrupt()
        await running.result
        session.prompt(Incoming(text="ask"))
        await until(lambda: session.info.state == "waiting")
        with pytest.raises(Conflict):
            await erase(kernel, session, 1, 1)
        session.interrupt()
        await until(lambda: session.info.state == "idle")
        assert isinstance((await erase(kernel, session, 1, 1)).body, ContextErased)


async def test_a_message_that_comes_meanwhile_waits(tmp_path: Path) -> None:
    """Nothing is read for a turn while the journal is rewritten; the message is answered right after."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, SECRET)
        ((start, end),) = turns(await journal(session))
        session.doze()  # type: ignore[attr-defined]
        erased, answered = await asyncio.gather(erase(kernel, session, start, end), ask(session, "next"))
        assert answered == "succeeded" and erased.body == ContextErased(start=start, end=end, by="operator")
        assert SECRET not in shown(model.requests[-1])


async def test_another_process_s_session_refuses(tmp_path: Path) -> None:
    """Who does not hold the tree's lease does not rewrite what its holder has in memory."""
    async with running_kernel(tmp_path / "a") as first, running_kernel(tmp_path / "b") as second:
        mine = await a_session(first, tmp_path / "w")
        await ask(mine, "one")
        workspace = await second.host.workspaces.open(tmp_path / "w")
        other = await second.host.sessions.open(mine.info.id, workspace=workspace.id, principal=OPERATOR)
        with pytest.raises(LeaseHeld):
            await erase(second, other, 1, 1)
        await erase(first, mine, 1, 1)
        mine.doze()  # type: ignore[attr-defined]
        for _ in range(100):
            try:
                await erase(second, other, 1, 1)
                break
            except LeaseHeld:
                await asyncio.sleep(0.02)
        else:
            raise AssertionError("the lease was never given back")
        assert await ask(mine, "two") == "succeeded", "and it is not kept"


async def until_sent(kernel: Kernel, workspace: str, target: str) -> None:
    """Wait until it is written that the one delivery to a target was sent."""

    async def is_sent() -> bool:
        owed = await kernel.host.outbox.list(workspace=workspace)
        return [part.state for each in owed if each.target == target for part in each.parts] == ["sent"]

    await until(is_sent, 10)


async def test_a_reply_that_was_not_sent_is_not_sent_any_more(tmp_path: Path) -> None:
    """Its part fails as erased and cannot be retried; the replies of other turns are sent as they are."""
    post = Postbox(fates=[Refused(retry_after=3600.0)])
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, SECRET, route=HERE)
        await ask(session, "other", route="post:me:there")
        workspace = session.info.workspace
        await until_sent(kernel, workspace, "post:me:there")
        (start, end), _ = turns(await journal(session))
        for _ in range(100):
            try:
                await erase(kernel, session, start, end)
                break
            except Conflict:  # it is just being sent
                await asyncio.sleep(0.02)
        other, mine = await kernel.host.outbox.list(workspace=workspace)
        assert (mine.text, [(part.state, part.error) for part in mine.parts]) == ("", [("failed", "erased")])
        assert (other.text[-5:], other.parts[0].state) == ("other", "sent")
        with pytest.raises(Conflict):
            await kernel.host.outbox.retry(mine.id, workspace=workspace)
        assert holds(tmp_path / "w", SECRET) == []


async def test_a_reply_is_found_although_time_goes_on_while_a_turn_ends(tmp_path: Path) -> None:
    """What was owed at the end of a turn is erased with it, even if no two looks at the clock see the same time."""

    class Running(VirtualClock):
        def now(self) -> int:
            self.advance(0.001)
            return super().now()

    async with running_kernel(tmp_path / "home", extra={"post": Postbox()}, clock=Running()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, SECRET, route=HERE)
        await until_sent(kernel, session.info.workspace, HERE)
        ((start, end),) = turns(await journal(session))
        await erase(kernel, session, start, end)
        (owed,) = await kernel.host.outbox.list(workspace=session.info.workspace)
        assert (owed.text, owed.parts[0].state, owed.parts[0].error) == ("", "sent", "erased")
        assert holds(tmp_path / "w", SECRET) == []


async def test_a_reply_that_is_being_sent_is_waited_for(tmp_path: Path) -> None:
    """Between the first byte and the answer nobody knows what becomes of a part: the erasure is refused."""
    gate = asyncio.Event()
    post = Postbox(before=lambda part: gate.wait())
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, SECRET, route=HERE)
        await until(lambda: post.attempts)
        ((start, end),) = turns(await journal(session))
        with pytest.raises(Conflict):
            await erase(kernel, session, start, end)
        gate.set()
        await until_sent(kernel, session.info.workspace, HERE)
        await erase(kernel, session, start, end)
        (sent,) = await kernel.host.outbox.list(workspace=session.info.workspace)
        assert (sent.text, sent.parts[0].state) == ("", "sent")


async def test_a_part_that_was_erased_on_its_way_is_not_sent(tmp_path: Path) -> None:
    """A part that its carrier had read, and that was erased before it began to send, stays erased."""
    kernels: list[Kernel] = []
    rows: list[tuple[Session, int, int]] = []
    erased: list[Event] = []

    class Slow(Postbox):
        async def split(self, text: str) -> list[str]:  # type: ignore[override]
            if SECRET in text:
                await until(lambda: rows)
                erased.append(await erase(kernels[0], *rows[0]))
            return [text]

    post = Slow()
    async with running_kernel(tmp_path / "home", extra={"post": post}) as kernel:
        kernels.append(kernel)
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, SECRET, route=HERE)
        rows.append((session, *turns(await journal(session))[0]))
        await until(lambda: erased)
        await asyncio.sleep(0.05)
        (mine,) = await kernel.host.outbox.list(workspace=session.info.workspace)
        assert (mine.text, mine.parts[0].state, mine.parts[0].error) == ("", "failed", "erased")
        assert post.attempts == []
        assert holds(tmp_path / "w", SECRET) == []


async def test_a_whole_session_is_erased_twice(tmp_path: Path) -> None:
    """From its first event to its last; doing so again does no harm, and the session goes on."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await ask(session, SECRET)
        for _ in range(2):
            await erase(kernel, session, 1, len(await journal(session)))
        events = await journal(session)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert not any(isinstance(event.body, InputAdded) for event in events)
        assert holds(tmp_path / "w", SECRET) == []
        assert await ask(session, "anew") == "succeeded"
