"""Sessions under random schedules, failing writes and lost leases: nothing is lost, doubled, or left open."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Event,
    History,
    Incoming,
    InputAdded,
    Kernel,
    ModelRequest,
    Place,
    Prompt,
    Receipt,
    Session,
    StorageUnavailable,
    ToolCall,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Tx,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    FaultyStorage,
    NoteTool,
    Pieces,
    ScriptedModel,
    Step,
    VirtualClock,
    running_kernel,
)

pytestmark = pytest.mark.thorough

SESSIONS = 3


class Trouble:
    """Refuses writes, and takes leases away ahead of others, as often as `rate` says, while it is `on`."""

    def __init__(self, rnd: random.Random) -> None:
        self.on = False
        self.roots: list[str] = []
        self._rnd = rnd
        self._rate = rnd.choice([0.0, 0.03, 0.1])

    def __call__(self, place: Place, number: int) -> Callable[[Tx], object] | None:
        if place.name != "halo" or not self.on:
            return None
        chance = self._rnd.random()
        if chance < self._rate:
            raise StorageUnavailable("injected")
        return self._taking(self._rnd.choice(self.roots)) if chance < self._rate * 1.3 else None

    def _taking(self, root: str) -> Callable[[Tx], object]:
        sql = "UPDATE leases SET member = NULL, epoch = epoch + 1 WHERE name = ?"
        return lambda tx: tx.execute(sql, (f"tree:{root}",))


class Crowd:
    """Senders that open sessions and say things to them in every way there is."""

    def __init__(self, kernel: Kernel, workspace: str, names: list[str], rnd: random.Random) -> None:
        self.handles: list[Prompt] = []
        self.receipts: list[Receipt] = []
        self._kernel, self._workspace, self._names, self._rnd = kernel, workspace, names, rnd

    async def open(self, name: str) -> Session:
        return await self._kernel.host.sessions.open(name, workspace=self._workspace, principal=OPERATOR)

    async def sender(self, number: int) -> None:
        rnd = self._rnd
        for turn in range(rnd.randint(1, 6)):
            await asyncio.sleep(rnd.random() * 0.01)
            session = await self.open(rnd.choice(self._names))
            await asyncio.sleep(rnd.random() * 0.003)
            await self._say(session, f"m{number}.{turn}")

    async def _say(self, session: Session, text: str) -> None:
        rnd, choice = self._rnd, self._rnd.random()
        message = Incoming(
            text=text,
            mode=rnd.choice(["steer", "follow_up", "interrupt_soft", "interrupt_hard"]),
            access=rnd.choice([None, None, "readonly"]),
            key=rnd.choice([None, f"k{rnd.randint(0, 3)}"]),
        )
        if choice < 0.65:
            handle = session.prompt(message)
            self.handles.append(handle)
            if choice > 0.5:
                await asyncio.sleep(rnd.random() * 0.003)
                handle.cancel()
        elif choice < 0.9:
            with suppress(StorageUnavailable):
                self.receipts.append(await session.submit(message))
        else:
            session.interrupt()


def model(rnd: random.Random) -> ScriptedModel:
    def respond(request: ModelRequest) -> Step:
        steps: list[Step] = [
            Answer("a"),
            Pieces(["a", "b"], 0.001),
            Calls([("note", {"text": "x"}), ("note", {"text": "y"})]),
            Fail("network"),
            Fail("account", text="half"),
        ]
        return rnd.choices(steps, [3, 3, 3, 1, 1])[0]

    return ScriptedModel(responder=respond)


async def at_rest(session: Session) -> list[Event]:
    before: list[Event] = []
    for _ in range(400):
        await asyncio.sleep(0.03)
        events = [update.event async for update in session.events() if update.event]
        if session.info.state == "idle" and events == before:
            return events
        before = events
    raise AssertionError("the session does not come to rest")


def check(events: list[Event]) -> None:
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    active = ""
    for event in events:
        if isinstance(event.body, TurnStarted):
            assert not active, "one turn at a time"
            active = event.turn
        if isinstance(event.body, TurnEnded):
            assert event.turn == active, "an end for each beginning, and no other"
            active = ""
    assert not active
    bodies = [event.body for event in events]
    calls = [b.id for body in bodies if isinstance(body, AssistantMessage) for b in _calls(body)]
    assert calls == [body.call for body in bodies if isinstance(body, ToolFinished)], "one result a call, in order"
    kinds = AssistantMessage | AssistantCut | AssistantDiscarded
    replies = [body.reply for body in bodies if isinstance(body, kinds)]
    assert len(replies) == len(set(replies)), "an answer is told once"


def _calls(body: AssistantMessage) -> list[ToolCall]:
    return [block for block in body.content if isinstance(block, ToolCall)]


def history_of(events: list[Event]) -> History:
    history = History()
    for event in events:
        history.apply(event)
    return history


async def scenario(seed: int, home: Path) -> None:
    rnd = random.Random(seed)
    trouble, tool = Trouble(rnd), NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    extra = {"faulty": FaultyStorage(trouble)}
    async with running_kernel(
        home / "home", model=model(rnd), tools=[tool], extra=extra, clock=VirtualClock()
    ) as kernel:
        (home / "w").mkdir()
        workspace = (await kernel.host.workspaces.open(home / "w")).id
        made = [await kernel.host.sessions.create(workspace=workspace, principal=OPERATOR) for _ in range(SESSIONS)]
        trouble.roots = [session.info.id for session in made]
        crowd = Crowd(kernel, workspace, trouble.roots, rnd)
        trouble.on = True
        await asyncio.gather(*(crowd.sender(number) for number in range(4)))
        await asyncio.sleep(0.03)
        trouble.on = False
        results = asyncio.gather(*(handle.result for handle in crowd.handles), return_exceptions=True)
        await check_all(kernel, workspace, crowd, trouble.roots, await asyncio.wait_for(results, 20))


async def check_all(kernel: Kernel, workspace: str, crowd: Crowd, names: list[str], results: list[Any]) -> None:
    outcomes: dict[str, str] = {}
    consumed: list[int] = []
    for name in names:
        session = await crowd.open(name)
        events = await at_rest(session)
        check(events)
        assert session._desk is None or session._desk.history == history_of(events)  # type: ignore[attr-defined]
        assert not session._prompts._open, "every handle is settled"  # type: ignore[attr-defined]
        partial = session.seat.feed._partials.get(name)  # type: ignore[attr-defined]
        assert partial is None, "nothing is shown as unfinished"
        consumed += [event.body.row for event in events if isinstance(event.body, InputAdded)]
        outcomes |= {event.turn: event.body.outcome for event in events if isinstance(event.body, TurnEnded)}
    assert len(consumed) == len(set(consumed)), "nothing is consumed twice"
    for result in results:
        if not isinstance(result, StorageUnavailable):
            assert result.outcome == outcomes.get(result.turn, "cancelled"), "a handle says how its turn ended"
    states = await kernel.workspaces.seats[workspace].database.read(
        lambda tx: dict(tx.execute("SELECT id, state FROM inbox"))
    )
    assert "waiting" not in states.values()
    for receipt in crowd.receipts:
        assert receipt.row in consumed or states[receipt.row] == "cancelled", "what was accepted is consumed"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_no_schedule_of_troubles_loses_or_doubles_anything(seed: int) -> None:
    """S3, S4, S36, S39: whatever is sent, withdrawn and interrupted when, and whichever writes fail or leases go."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("halo_kernel.sessions.session._HELD_SECONDS", 0.02)
        patch.setattr("halo_kernel.sessions.seat._KEPT_OPEN", 1)
        asyncio.run(scenario(seed, Path(folder)))
