"""The inbox: one queue in the order of rows, each of them consumed, withdrawn, stopped or dropped, once."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Event,
    Incoming,
    InputAdded,
    Kernel,
    Mode,
    ModelRequest,
    NotFound,
    Principal,
    Receipt,
    Session,
    SessionClosed,
    TurnEnded,
    TurnStarted,
    Tx,
)
from halo_kernel.journal import find
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    Step,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)

SEEDS = st.integers(0, 1 << 30)
MODES: list[Mode] = ["steer", "follow_up", "interrupt_soft", "interrupt_hard"]


def model(rnd: random.Random) -> ScriptedModel:
    steps: list[Step] = [Answer("a"), Pieces(["a", "b"], 0.001), *[Calls([("note", {"text": "x"})])] * 3]

    def respond(request: ModelRequest) -> Step:
        return rnd.choice(steps)

    return ScriptedModel(responder=respond)


def scheduled(scenario: Callable[[random.Random, Path], Awaitable[None]], seed: int) -> None:
    """Run a scenario in a folder of its own."""

    async def run(folder: str) -> None:
        await scenario(random.Random(seed), Path(folder))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


async def read(kernel: Kernel, session: Session, sql: str, *args: Any) -> list[Any]:
    database = kernel.workspaces.seats[session.info.workspace].database
    return await database.read(lambda tx: list(tx.execute(sql, args)))


class Queue:
    """What a session's rows are, seen again and again, each time with its journal in one read."""

    def __init__(self, kernel: Kernel, sessions: list[Session]) -> None:
        self.states: dict[int, str] = {}
        self._sessions = [session.info.id for session in sessions]
        self._database = kernel.workspaces.seats[sessions[0].info.workspace].database
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.001)

    async def look(self) -> None:
        rows, consumed = await self._database.read(self._rows)
        for row, (key, state) in rows.items():
            assert self.states.get(row, "waiting") in ("waiting", state), "what is settled stays as it is"
            assert (state == "consumed") == (row in consumed) or state == "stopped", "queue = accepted - consumed"
            assert row not in consumed or consumed[row] == key, "the journal tells whose it was"
            self.states[row] = state
        assert consumed.keys() <= rows.keys()

    def _rows(self, tx: Tx) -> tuple[Mapping[int, tuple[str, str]], Mapping[int, str]]:
        rows = {row: (key, state) for row, key, state in tx.execute("SELECT id, key, state FROM inbox ORDER BY id")}
        told = [each.body for name in self._sessions for each in find(tx, name, "kind = 'input.added'")]
        bodies = [body for body in told if isinstance(body, InputAdded)]
        consumed = {body.row: body.key for body in bodies}
        assert len(consumed) == len(bodies), "nothing is consumed twice"
        return rows, consumed

    async def end(self) -> None:
        """See that nothing waits any more. Raises what was seen on the way."""
        assert not self._watching.done(), self._watching.exception()
        self._watching.cancel()
        await self.look()
        assert "waiting" not in self.states.values()


async def delivered(rnd: random.Random, home: Path) -> None:
    """Send, withdraw, cancel and stop at random."""
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    async with running_kernel(home / "home", model=model(rnd), tools=[note], clock=VirtualClock()) as kernel:
        sessions = [await a_session(kernel, home / "w") for _ in range(2)]
        queue = Queue(kernel, sessions)

        async def send() -> None:
            for _ in range(rnd.randint(1, 5)):
                await asyncio.sleep(rnd.random() * 0.005)
                session, what = rnd.choice(sessions), rnd.random()
                message = Incoming(text="m", mode=rnd.choice(MODES), access=rnd.choice([None, None, "readonly"]))
                if what < 0.6:
                    await session.submit(message)
                elif what < 0.8:
                    handle = session.prompt(message)
                    await asyncio.sleep(rnd.random() * 0.004)
                    handle.cancel()
                elif what < 0.9:
                    session.interrupt()
                else:
                    await session.stop()

        await asyncio.wait_for(asyncio.gather(*(send() for _ in range(3))), 20)
        await until(lambda: all(session.info.state == "idle" for session in sessions))
        await queue.end()


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_the_queue_is_what_was_accepted_and_not_consumed(seed: int) -> None:
    """S39: at every instant a row waits until it is consumed or withdrawn, and the journal has each consumed one."""
    scheduled(delivered, seed)


async def repeated(rnd: random.Random, home: Path) -> None:
    async with running_kernel(home / "home", model=model(rnd), tools=[NoteTool()], clock=VirtualClock()) as kernel:
        sessions = [await a_session(kernel, home / "w") for _ in range(2)]
        receipts: dict[tuple[str, str], list[Receipt]] = {}

        async def send() -> None:
            for _ in range(rnd.randint(2, 6)):
                await asyncio.sleep(rnd.random() * 0.004)
                who, key = rnd.choice(["operator", "other"]), rnd.choice("abc")
                message = Incoming(text=f"{who} {key}", key=key, principal=Principal(name=who), mode=rnd.choice(MODES))
                receipt = await rnd.choice(sessions).submit(message)
                receipts.setdefault((who, key), []).append(receipt)

        await asyncio.gather(*(send() for _ in range(4)))
        await until(lambda: all(session.info.state == "idle" for session in sessions))
        for same in receipts.values():
            assert all(receipt == same[0] for receipt in same), "the first receipt, whoever asks again"
        events = [event for session in sessions for event in await journal(session)]
        told = [event.body.text for event in events if isinstance(event.body, InputAdded)]
        assert sorted(told) == sorted(f"{who} {key}" for who, key in receipts), "one record, one consumption"


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_key_is_one_message_of_its_sender(seed: int) -> None:
    """S37: however often a sender repeats a key, to whichever session, there is one receipt and one message."""
    scheduled(repeated, seed)


async def steered(rnd: random.Random, home: Path) -> None:
    """Send in every mode but `interrupt_hard`, at one level, and see which turn has consumed each row."""
    note = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.004))
    async with running_kernel(home / "home", model=model(rnd), tools=[note], clock=VirtualClock()) as kernel:
        session = await a_session(kernel, home / "w")
        sent: list[tuple[Mode, Receipt]] = []
        for number in range(rnd.randint(3, 10)):
            mode = rnd.choice(MODES[:3])
            sent.append((mode, await session.submit(Incoming(text=f"m{number}", mode=mode))))
            await asyncio.sleep(rnd.random() * 0.006)
        await until(lambda: session.info.state == "idle")
        check_modes(await journal(session), sent)


def check_modes(events: list[Event], sent: list[tuple[Mode, Receipt]]) -> None:
    starts = [event.seq for event in events if isinstance(event.body, TurnStarted)]
    turns = [event.turn for event in events if isinstance(event.body, TurnStarted)]
    ends = {event.turn: event.seq for event in events if isinstance(event.body, TurnEnded)}
    consumed = {event.body.row: event.turn for event in events if isinstance(event.body, InputAdded)}
    for mode, receipt in sent:
        head = int(receipt.cursor.rpartition(".")[2])
        place = turns.index(consumed[receipt.row])
        begun = sum(seq <= head for seq in starts)  # turns that had begun when it was accepted
        if begun and ends[turns[begun - 1]] > head:  # the last of them was active
            assert place in ((begun - 1, begun) if mode == "steer" else (begun,)), f"{mode}: this turn, or the next one"
        else:
            assert place in (begun, begun + 1), "the next turn, or the one behind that was just about to begin"
    for mode in MODES:
        order = [event.body.row for event in events if isinstance(event.body, InputAdded)]
        mine = [receipt.row for other, receipt in sent if other == mode]
        assert [row for row in order if row in mine] == sorted(mine), "in the order of rows"


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_a_mode_says_when_a_row_is_consumed(seed: int) -> None:
    """S38: steering joins the active turn, the rest is the next one, all of it, in the order in which it came."""
    scheduled(steered, seed)


@pytest.mark.parametrize(
    ("how", "state", "told"),
    [
        ("answer", "consumed", ["run", "more"]),
        ("withdraw", "cancelled", ["run"]),
        ("cancel", "consumed", ["run", "more"]),
        ("stop", "stopped", ["run", "more"]),
        ("archive", "dropped", ["run"]),
    ],
)
async def test_the_states_of_a_row(tmp_path: Path, how: str, state: str, told: list[str]) -> None:
    """S39: a row waits, then is consumed, withdrawn, or settled by a stop (kept) or an archive; a cancel leaves it."""
    held = asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    scripted = ScriptedModel([Calls([("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=scripted, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        more = session.prompt(Incoming(text="more", mode="follow_up"))
        row = (await more.accepted).row
        assert await read(kernel, session, "SELECT state FROM inbox WHERE id = ?", row) == [("waiting",)]
        if how == "withdraw":
            more.cancel()
            assert (await more.result).outcome == "cancelled"
        elif how == "cancel":
            session.interrupt()
        elif how != "answer":
            await getattr(session, how)()
        held.set()
        assert (await first.result).outcome == ("succeeded" if how in ("answer", "withdraw") else "cancelled")
        assert (await more.result).outcome == ("succeeded" if how in ("answer", "cancel") else "cancelled")
        assert await read(kernel, session, "SELECT state FROM inbox WHERE id = ?", row) == [(state,)]
        events = await journal(session)
        assert [event.body.text for event in events if isinstance(event.body, InputAdded)] == told


async def test_refusals_of_what_is_not_there(tmp_path: Path) -> None:
    """S40: a session that is unknown, a stranger's, or that was archived takes nothing, and nothing is written."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for name, who in (("nobody", OPERATOR), (session.info.id, Principal(name="stranger"))):
            with pytest.raises(NotFound):
                await kernel.host.sessions.open(name, workspace=session.info.workspace, principal=who)
        await session.archive()
        for send in (session.submit, lambda message: session.prompt(message).accepted):
            with pytest.raises(SessionClosed):
                await send(Incoming(text="x"))
        assert await read(kernel, session, "SELECT count(*) FROM inbox") == [(0,)]


async def test_a_turn_that_is_out_of_steps_leaves_what_waits_to_the_next(tmp_path: Path) -> None:
    """S41: a turn that has reached `max_steps` ends, though rows wait; they begin the next one."""
    steps: list[Step] = [Calls([("note", {"text": "x"})]), Calls([("note", {"text": "y"})]), Answer("done")]
    held = asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    env = {"HALO_AGENT_MAX_STEPS": "2"}
    async with running_kernel(tmp_path / "home", model=ScriptedModel(steps), tools=[note], env=env) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        later = session.prompt(Incoming(text="later", mode="follow_up"))
        await later.accepted
        held.set()
        result = await first.result
        assert (result.outcome, result.kind) == ("failed", "max_steps")
        assert (await later.result).text == "done" and (await later.result).turn != result.turn


async def test_a_parked_tree_keeps_what_waits(tmp_path: Path) -> None:
    """S39: what waits at a tree that is parked is neither run nor lost: a person's message has all of it answered."""
    home, scripted = tmp_path / "home", ScriptedModel([Hang()])
    async with running_kernel(home, model=scripted) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="run"))
        await until(lambda: scripted.active)
        await session.submit(Incoming(text="waits", mode="follow_up"))
    async with running_kernel(home, recover=False) as kernel:
        await kernel.host.workspaces.open(tmp_path / "w")
        seat = kernel.workspaces.seats[session.info.workspace]
        await seat.database.write(lambda tx: tx.one("UPDATE runs SET landed = 0"))
        await seat.database.write(lambda tx: tx.one("UPDATE sessions SET crashes = 2"))
        await kernel.recover()
        session = await kernel.host.sessions.open(session.info.id, workspace=seat.workspace.id, principal=OPERATOR)
        await until(lambda: session.info.parked)
        assert ("waits", "waiting") in await read(kernel, session, "SELECT text, state FROM inbox")
        result = await session.prompt(Incoming(text="and now?")).result
        assert result.outcome == "succeeded"
        events = await journal(session)
        texts = {event.body.text: event.turn for event in events if isinstance(event.body, InputAdded)}
        assert texts["waits"] == texts["and now?"] == result.turn
