"""Leases: one holder at a time, epochs that grow, writes that are fenced, and what other processes may do meanwhile."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Call,
    Incoming,
    InputAdded,
    Kernel,
    LeaseHeld,
    LeaseLost,
    Mode,
    ModelRequest,
    Place,
    Question,
    Receipt,
    Session,
    SessionClosed,
    Stopping,
    ToolSpec,
    TurnEnded,
    TurnStarted,
    Tx,
)
from halo_kernel.sqlite import SqliteStorage
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    Step,
    journal,
    running_kernel,
    until,
)

MODES: list[Mode] = ["steer", "follow_up", "interrupt_soft", "interrupt_hard"]
ACTS = st.tuples(st.sampled_from(["take", "take", "write", "release", "end"]), st.integers(0, 2), st.integers(0, 9))


class Members:
    """Three open databases on one folder, and what their lease should be."""

    def __init__(self, folder: Path) -> None:
        self.open: list[Any] = []
        self.held: list[list[Any]] = [[], [], []]
        self.holder: int | None = None
        self.epoch = 0
        self._place = Place(name="halo", scope="workspace", directory=folder)

    async def start(self) -> None:
        self.open = [await SqliteStorage().open(self._place, []) for _ in range(3)]

    async def close(self) -> None:
        for database in self.open:
            await database.close()

    async def act(self, what: str, who: int, which: int) -> None:
        """Do something as one of them, and see that what comes of it is as it should be."""
        mine = self.held[who]
        if what == "take" and self.holder in (None, who):
            self.epoch += self.holder is None
            self.holder = who
            mine.append(await self.open[who].lease("tree:1"))
            assert mine[-1].epoch == self.epoch, "a new holder has a larger epoch, the same one keeps it"
        elif what == "take":
            with pytest.raises(LeaseHeld):
                await self.open[who].lease("tree:1")
        elif what == "end":
            await self.open[who].close()
            self.open[who] = await SqliteStorage().open(self._place, [])
            mine.clear()
            self.holder = None if self.holder == who else self.holder
        elif mine:
            await self._use(what, who, mine[which % len(mine)])

    async def _use(self, what: str, who: int, lease: Any) -> None:
        current = self.holder == who and lease.epoch == self.epoch
        if what == "release":
            await lease.release()
            self.holder = None if current else self.holder
        elif current:
            await self.open[who].write(lease.check)
        else:
            with pytest.raises(LeaseLost):
                await self.open[who].write(lease.check)


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTS, max_size=20))
async def test_a_lease_has_one_holder(acts: list[tuple[str, int, int]]) -> None:
    """Free, held, released, lost: whatever members do, one holds it, its epoch grows, and older ones write nothing."""
    with tempfile.TemporaryDirectory() as folder:
        members = Members(Path(folder))
        await members.start()
        try:
            for what, who, which in acts:
                await members.act(what, who, which)
        finally:
            await members.close()


async def the_session(kernel: Kernel, folder: Path, name: str = "shared") -> Session:
    workspace = await kernel.host.workspaces.open(folder)
    return await kernel.host.sessions.open(name, workspace=workspace.id, principal=OPERATOR, create=True)


def model(rnd: random.Random) -> ScriptedModel:
    steps: list[Step] = [Answer("a"), Pieces(["a", "b"], 0.001), Calls([("note", {"text": "x"})])]

    def respond(request: ModelRequest) -> Step:
        return rnd.choice(steps)

    return ScriptedModel(responder=respond)


async def two_processes(rnd: random.Random, home: Path) -> None:
    """Send to one session through two kernels; end one of them at a random moment."""
    (home / "w").mkdir()
    receipts: list[Receipt] = []
    tools = [NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))]

    async def send(session: Session) -> None:
        for number in range(rnd.randint(1, 5)):
            await asyncio.sleep(rnd.random() * 0.01)
            try:
                receipts.append(await session.submit(Incoming(text=f"m{number}", mode=rnd.choice(MODES))))
            except (Stopping, SessionClosed):
                return

    async with running_kernel(home / "b", model=model(rnd), tools=tools) as second:
        async with running_kernel(home / "a", model=model(rnd), tools=tools) as first:
            sessions = [await the_session(kernel, home / "w") for kernel in (first, second)]
            sending = [asyncio.create_task(send(session)) for session in sessions * 2]
            await asyncio.sleep(rnd.random() * 0.04)
        await asyncio.gather(*sending)
        last = await sessions[1].prompt(Incoming(text="last", mode="follow_up")).result
        assert last.outcome == "succeeded"
        active, consumed = "", list[int]()
        for event in await journal(sessions[1]):
            if isinstance(event.body, TurnStarted):
                assert not active, "one turn at a time, whichever process runs it"
                active = event.turn
            elif isinstance(event.body, TurnEnded):
                active = ""
            elif isinstance(event.body, InputAdded) and event.body.cause == "message":
                consumed.append(event.body.row)
        assert len(consumed) == len(set(consumed)) and {receipt.row for receipt in receipts} <= set(consumed)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 30))
def test_two_processes_run_one_turn_at_a_time(seed: int) -> None:
    """S4, S36: of processes that share a workspace one runs a tree; the other's messages are answered, once."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("halo_kernel.sessions.session._HELD_SECONDS", 0.02)
        asyncio.run(two_processes(random.Random(seed), Path(folder)))


class Asking:
    """A tool that asks."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Really?"))
        assert call.answer is not None
        return f"told {call.answer.text}"


async def test_another_process_answers(tmp_path: Path) -> None:
    """S42: an answer that is given where the tree is not held lets its holder go on."""
    (tmp_path / "w").mkdir()
    scripted = ScriptedModel([Calls([("ask", {})])])
    async with (
        running_kernel(tmp_path / "a", model=scripted, tools=[Asking()]) as first,
        running_kernel(tmp_path / "b", tools=[Asking()]) as second,
    ):
        mine = await the_session(first, tmp_path / "w")
        handle = mine.prompt(Incoming(text="go"))
        await until(lambda: mine.info.state == "waiting")
        where = (await the_session(second, tmp_path / "w")).info.workspace
        (asked,) = await second.host.questions.list(workspace=where, principal=OPERATOR)
        await second.host.questions.answer(asked.id, workspace=where, principal=OPERATOR, approved=True, text="yes")
        assert (await asyncio.wait_for(handle.result, 10)).outcome == "succeeded"
        assert "told yes" in str(scripted.requests[-1].messages[-1])


async def test_a_lease_that_was_taken_over_fences_the_turn(tmp_path: Path) -> None:
    """A turn whose tree another process took writes nothing more: neither its answer, nor its end, nor what it owes."""
    (tmp_path / "w").mkdir()
    scripted = ScriptedModel([Hang("half")])
    async with running_kernel(tmp_path / "a", model=scripted) as kernel:
        session: Any = await the_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go", route="chat:me:1"))
        await until(lambda: scripted.active)
        head = len(await journal(session))
        database = kernel.workspaces.seats[session.info.workspace].database

        def take(tx: Tx) -> None:
            tx.execute("UPDATE leases SET member = 'another', epoch = epoch + 1 WHERE name LIKE 'tree:%'")

        await database.write(take)
        session.interrupt()
        await until(lambda: not scripted.active)
        await asyncio.sleep(0.05)
        assert len(await journal(session)) == head
        assert await database.read(lambda tx: tx.one("SELECT count(*) FROM outbox")) == (0,)
        await until(lambda: len(scripted.requests) == 2, 10)  # nobody of that name lives: it is taken back
        await until(lambda: session.info.state == "idle")
        ends = [event.body.outcome for event in await journal(session) if isinstance(event.body, TurnEnded)]
        assert ends == ["interrupted", "succeeded"]
