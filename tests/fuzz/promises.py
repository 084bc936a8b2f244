"""What holds of a workspace at rest, whatever was done to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from halo_kernel import (
    OPERATOR,
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Event,
    History,
    InputAdded,
    Message,
    Text,
    ToolCall,
    ToolFinished,
    ToolResult,
    TurnEnded,
    TurnStarted,
    View,
    repair_history,
)
from halo_kernel.journal import folded, read

from .world import World

_SETTLED = {"consumed", "cancelled", "dropped", "stopped", "done"}


async def check_everything(world: World) -> None:
    """Check each promise."""
    journals = {name: await _journal(world, name) for name in world.alive}
    for events in journals.values():
        check_journal(events)
    await check_folds(world, journals)
    await check_messages(world, journals)
    await check_parts(world)
    await check_owed(world)
    for request in world.model.requests:
        check_strict(request.messages)
    for name in world.alive:
        info = (await world.open(name)).info
        assert info.state == "idle", f"{name} is {info.state}"
        assert info.archived == (name in world.archived)


async def _journal(world: World, name: str) -> list[Event]:
    return list(await world.database.read(lambda tx: read(tx, name)))


def check_journal(events: Sequence[Event]) -> None:
    """The numbers have no gap; turns do not overlap and end; each call has one result; an answer is told once."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    active = ""
    for event in events:
        if isinstance(event.body, TurnStarted):
            assert active in ("", event.turn), "one turn at a time"
            active = event.turn
        if isinstance(event.body, TurnEnded):
            assert event.turn == active, "an end for each beginning, and no other"
            active = ""
    assert not active
    bodies = [event.body for event in events]
    calls = [
        block.id
        for body in bodies
        if isinstance(body, AssistantMessage)
        for block in body.content
        if isinstance(block, ToolCall)
    ]
    assert calls == [body.call for body in bodies if isinstance(body, ToolFinished)], "one result a call, in order"
    replies = [body.reply for body in bodies if isinstance(body, AssistantMessage | AssistantCut | AssistantDiscarded)]
    assert len(replies) == len(set(replies)), "an answer is told once"


async def check_folds(world: World, journals: dict[str, list[Event]]) -> None:
    """What was kept of a journal, and its end, come to what all of it does; a provider takes the history."""
    for name, events in journals.items():
        for fold in (History, View):
            whole = fold()
            for event in events:
                whole.apply(event)
            kept, _ = await world.database.read(lambda tx, name=name, fold=fold: folded(tx, name, fold))
            assert kept == whole, name
        _, view, messages = await world.kernel.host.sessions.export(name, workspace=world.workspace, principal=OPERATOR)
        check_strict(messages)
        assert not view.running


def check_strict(messages: Sequence[Message]) -> None:
    """The union of what strict providers demand."""
    assert tuple(messages) == repair_history(messages), "repaired already"
    used: set[str] = set()
    before: list[str] = []
    for position, message in enumerate(messages):
        assert message.content and message.role == ("user" if position % 2 == 0 else "assistant")
        assert all(block.text.strip() for block in message.content if isinstance(block, Text))
        results = [block.call for block in message.content if isinstance(block, ToolResult)]
        assert results == before, "one result a call, in order"
        calls = [block for block in message.content if isinstance(block, ToolCall)]
        assert not calls or message.role == "assistant"
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", call.name) for call in calls)
        before = [call.id for call in calls]
        assert not used.intersection(before) and len(set(before)) == len(before)
        used.update(before)
    assert not before


async def check_messages(world: World, journals: dict[str, list[Event]]) -> None:
    """What was acknowledged is there, is settled, and went into one history once."""
    rows = await world.rows("SELECT id, state, session FROM inbox")
    states, whose = {row: state for row, state, _ in rows}, {row: session for row, _, session in rows}
    inputs = [(name, event.body) for name, events in journals.items() for event in events]
    # a copy has the messages of its original, which are nobody's twice
    taken = Counter(body.row for name, body in inputs if isinstance(body, InputAdded) and whose[body.row] == name)
    assert not [row for row, count in taken.items() if count > 1], "nothing is consumed twice"
    assert set(states.values()) <= _SETTLED | {"held"}
    for sent in world.sent:
        state = states[sent.receipt.row]
        assert state in _SETTLED, "what was acknowledged is settled"
        if sent.session not in world.deleted:
            assert (state in ("consumed", "stopped")) == (sent.receipt.row in taken), (state, sent)
        if state == "dropped":
            assert sent.session in world.deleted | world.archived


async def check_parts(world: World) -> None:
    """A part is in one of its states, arrived at most once, and what is said of it is true."""
    sql = "SELECT o.dispatcher, o.key, p.number, p.state, p.attempt FROM parts p JOIN outbox o ON o.id = p.delivery"
    arrived = Counter(part.key for post in world.posts for part in post.arrived)
    twice = {key for key, count in arrived.items() if count > 1} - world.again
    assert not twice, f"these arrived twice: {twice}"
    for _, key, number, state, attempt in await world.rows(sql):
        part = f"outbox:{world.workspace}:{key}#{number}"
        assert state in ("sent", "failed", "uncertain"), state
        assert state != "sent" or arrived[part], "what is sent has arrived"
        assert state != "failed" or not arrived[part] or part in world.again, "what has failed has not arrived"
        assert attempt or state == "failed"


async def check_owed(world: World) -> None:
    """Every route is replied to, at most once a message, and every pointer is paid once."""
    assert not await world.rows("SELECT * FROM inbox WHERE owed = 1 AND state <> 'held'")
    owed = await world.rows("SELECT session, target, debt, key FROM outbox")
    replies = Counter((session, target) for session, target, debt, _ in owed if debt == "reply")
    paid = Counter(key.split(":")[1] for *_, debt, key in owed if debt == "report")
    buried = {name for (name,) in await world.rows("SELECT id FROM sessions WHERE journal = ''")}
    assert buried <= world.deleted, "only what was deleted is taken out"
    sent = [each for each in world.sent if each.session not in buried]
    states = dict(await world.rows("SELECT id, state FROM inbox"))
    asked = Counter((each.session, each.said.route) for each in sent if each.said.route)
    kept = {(each.session, each.said.route) for each in sent if states[each.receipt.row] in ("consumed", "stopped")}
    for place, count in asked.items():
        assert replies[place] <= count, f"more replies than messages to {place}"
        assert replies[place] or place not in kept, f"no reply to {place}"
    for each in sent:
        assert paid[str(each.receipt.row)] == each.said.points, f"a pointer is paid once: {each}"
