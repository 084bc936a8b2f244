"""Runs under random schedules: each settles once, one at a time, and nothing accepted is lost."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Event,
    HaloError,
    Incoming,
    InputAdded,
    Kernel,
    ModelRequest,
    Principal,
    Prompt,
    Receipt,
    Session,
    TurnEnded,
    TurnStarted,
)
from halo_kernel.testing import Answer, Calls, Fail, NoteTool, Pieces, ScriptedModel, Step, VirtualClock, running_kernel


def random_model(rnd: random.Random) -> ScriptedModel:
    def respond(request: ModelRequest) -> Step:
        steps: list[Step] = [
            Answer("a"),
            Pieces(["a", "b"], 0.001),
            Calls([("note", {"text": "x"}), ("note", {"text": "y"})]),
            Fail("network"),
        ]
        return rnd.choices(steps, [3, 3, 2, 1])[0]

    return ScriptedModel(responder=respond)


class Sent:
    """What was sent to a session, and what came of it."""

    def __init__(self) -> None:
        self.handles: list[Prompt] = []
        self.receipts: list[Receipt] = []


async def sender(session: Session, rnd: random.Random, sent: Sent) -> None:
    for number in range(rnd.randint(1, 4)):
        await asyncio.sleep(rnd.random() * 0.004)
        mode = rnd.choice(["steer", "follow_up", "interrupt_soft", "interrupt_hard"])
        message = Incoming(text=f"m{number}", mode=mode, access=rnd.choice([None, None, None, "readonly"]))
        choice = rnd.random()
        if choice < 0.5:
            sent.handles.append(session.prompt(message))
        elif choice < 0.7:
            handle = session.prompt(message)
            sent.handles.append(handle)
            handle.cancel()
        elif choice < 0.9:
            sent.receipts.append(await session.submit(message))
        else:
            session.interrupt()


def check_journal(journal: list[Event], receipts: list[Receipt]) -> None:
    open_turn = ""
    for event in journal:
        if isinstance(event.body, TurnStarted):
            assert not open_turn, "at most one run is between its start and its end"
            open_turn = event.turn
        if isinstance(event.body, TurnEnded):
            assert event.turn == open_turn
            open_turn = ""
    assert not open_turn
    assert [event.seq for event in journal] == list(range(1, len(journal) + 1))
    consumed = [event.body.row for event in journal if isinstance(event.body, InputAdded)]
    assert len(set(consumed)) == len(consumed), "nothing is consumed twice"
    assert {receipt.row for receipt in receipts} <= set(consumed), "what was accepted is consumed"


async def rest(kernel: Kernel, session: Session) -> None:
    for _ in range(3000):
        if session.info.state != "running":
            return
        await asyncio.sleep(0.002)
    raise AssertionError("the session does not come to rest")


async def scenario(seed: int, home: Path) -> None:
    rnd = random.Random(seed)
    tool = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    model = random_model(rnd)
    async with running_kernel(home / "home", model=model, tools=[tool], clock=VirtualClock()) as kernel:
        (home / "w").mkdir()
        workspace = await kernel.host.workspaces.open(home / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        sent = Sent()
        await asyncio.gather(*(sender(session, rnd, sent) for _ in range(3)))
        results = await asyncio.wait_for(asyncio.gather(*(handle.result for handle in sent.handles)), 20)
        await rest(kernel, session)
        journal = [update.event async for update in session.events() if update.event]
        check_journal(journal, sent.receipts)
        outcomes = {e.turn: e.body.outcome for e in journal if isinstance(e.body, TurnEnded)}
        for result in results:
            assert result.outcome == outcomes.get(result.turn, "cancelled"), "a handle says how its turn ended"
            assert result.outcome != "yielded"
        assert not session._prompts._open, "the registry is empty"  # type: ignore[attr-defined]
        assert not session.interrupt() and model.active == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_every_run_settles_once_and_one_at_a_time(seed: int) -> None:
    """S3, S4, S36, S41: whatever is sent, cancelled and interrupted when, runs end once, alone, and consume all."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(seed, Path(folder)))


async def abrupt(seed: int, home: Path) -> None:
    """Close the kernel at a random instant, open it again, and see that everything accepted is answered once."""
    rnd = random.Random(seed)
    receipts: list[Receipt] = []
    name = workspace = ""
    for boot in range(3):
        model = random_model(rnd)
        async with running_kernel(home / "home", model=model, tools=[NoteTool()], clock=VirtualClock()) as kernel:
            if boot == 0:
                (home / "w").mkdir()
                info = await kernel.host.workspaces.open(home / "w")
                session = await kernel.host.sessions.create(workspace=info.id, principal=OPERATOR)
                name, workspace = session.info.id, info.id
            session = await kernel.host.sessions.open(name, workspace=workspace, principal=Principal(name="operator"))
            for number in range(rnd.randint(0, 3) if boot < 2 else 1):
                key = f"k{boot}.{number}"
                try:
                    receipts.append(await session.submit(Incoming(text=key, key=key)))
                except HaloError:
                    continue
                await asyncio.sleep(rnd.random() * 0.006)
            if boot == 2:
                await rest(kernel, session)
                await asyncio.sleep(0.01)
                await rest(kernel, session)
                journal = [update.event async for update in session.events() if update.event]
    check_journal(journal, receipts)
    last = [e.body.outcome for e in journal if isinstance(e.body, TurnEnded)][-1]
    assert last in ("succeeded", "failed"), "the last turn answers what earlier stops had cut"


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 30))
def test_stops_at_any_instant_lose_nothing(seed: int) -> None:
    """S36: a receipt exists, so after a stop and a new start the input is in the journal exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(abrupt(seed, Path(folder)))
