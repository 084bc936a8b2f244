"""The life of a session under random schedules: its states, its opens and closes, and what refusals leave."""

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
    AgentSpec,
    BadInput,
    HaloError,
    Incoming,
    Kernel,
    QueueFull,
    Session,
    SessionClosed,
    StorageUnavailable,
    TurnStarted,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    a_session,
    journal,
    running_kernel,
    until,
)

ORDER = ("idle", "waiting", "running", "closed")


def model(rnd: random.Random) -> ScriptedModel:
    steps = [Answer("a"), Pieces(["a", "b"], 0.002), Calls([("note", {"text": "x"})])]
    return ScriptedModel(responder=lambda request: rnd.choice(steps))


async def closing(seed: int, home: Path) -> None:
    """Send and interrupt at random, close at a random instant, and watch every state on the way."""
    rnd = random.Random(seed)
    async with running_kernel(home / "home", model=model(rnd), tools=[NoteTool()]) as kernel:
        session = await a_session(kernel, home / "w")
        seen: list[str] = []
        handles: list[Any] = []

        async def watch() -> None:
            while True:
                state = session.info.state
                seen.append(state)
                if state != "closed":
                    unsettled = [handle for handle in handles if not handle.result.done()]
                    assert not unsettled or state == "running", "a message that is not answered keeps it running"
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        for _ in range(rnd.randint(1, 5)):
            handles.append(session.prompt(Incoming(text="go", mode=rnd.choice(["follow_up", "interrupt_hard"]))))
            await asyncio.sleep(rnd.random() * 0.01)
            if rnd.random() < 0.2:
                session.interrupt()
        begun = len([event for event in await journal(session) if isinstance(event.body, TurnStarted)])
        closes = [session.close(rnd.choice(["abort", "land"])) for _ in range(3)]  # type: ignore[attr-defined]
        assert session.info.state == "closed"
        await asyncio.gather(*closes)
        with pytest.raises(SessionClosed):
            session.prompt(Incoming(text="late"))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert all(handle.result.done() for handle in handles)
        if "closed" in seen:
            assert set(seen[seen.index("closed") :]) == {"closed"}, "nothing is opened again"
        info = session.info
        again = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        await until(lambda: again.info.state == "idle", 10)
        turns = [event for event in await journal(again) if isinstance(event.body, TurnStarted)]
        assert again is not session and len(turns) >= begun


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_session_is_closed_once_and_says_so_at_every_instant(seed: int) -> None:
    """S1, S9, S10: states go forward only, an unanswered message means running, closing many times is closing once."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(closing(seed, Path(folder)))


async def test_no_turn_begins_after_a_close(tmp_path: Path) -> None:
    """S2: what waits when a session is closed starts no turn in it any more, and waits for the next opening."""
    scripted = ScriptedModel([Hang("half")])
    async with running_kernel(tmp_path / "home", model=scripted) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        session.prompt(Incoming(text="one"))
        await until(lambda: scripted.active)
        behind = session.prompt(Incoming(text="two", mode="follow_up"))
        await behind.accepted
        await session.close("abort")  # type: ignore[attr-defined]
        events = await journal(session)
        assert [event.kind for event in events].count("turn.started") == 1
        await asyncio.sleep(0.2)
        assert len(await journal(session)) == len(events)
        again = await kernel.host.sessions.open(session.info.id, workspace=session.info.workspace, principal=OPERATOR)
        await until(lambda: again.info.state == "idle" and len(scripted.requests) == 2, 10)


async def test_a_cancel_ends_the_active_run_and_leaves_what_waits(tmp_path: Path) -> None:
    """S6: a cancel ends the run that is active; messages that wait behind it are answered by the next one."""
    scripted = ScriptedModel([Hang("half")])
    async with running_kernel(tmp_path / "home", model=scripted) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="one"))
        await until(lambda: scripted.active)
        second = session.prompt(Incoming(text="two", mode="follow_up"))
        await second.accepted
        assert session.interrupt()
        assert (await first.result).outcome == "cancelled"
        assert (await second.result).outcome == "succeeded"


async def test_a_task_that_is_cancelled_before_its_first_step_frees_the_session(tmp_path: Path) -> None:
    """S7: the task of a run, cancelled before it took a step, leaves a session that answers the next message."""
    async with running_kernel(tmp_path / "home") as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        session.stir()
        session._driver.cancel()
        await asyncio.sleep(0)
        result = await asyncio.wait_for(session.prompt(Incoming(text="hi")).result, 10)
        assert result.text == "echo: hi" and session.info.state in ("idle", "running")


async def opening(seed: int, home: Path) -> None:
    rnd = random.Random(seed)
    async with running_kernel(home / "home") as kernel:
        first = await a_session(kernel, home / "w")
        name, workspace = first.info.id, first.info.workspace
        found: list[Any] = [first]

        async def visit() -> None:
            for _ in range(4):
                await asyncio.sleep(rnd.random() * 0.004)
                live: Any = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
                if live not in found:
                    found.append(live)
                open_ones = [each for each in found if not each.closed]
                assert len(open_ones) <= 1, "one instance at a time"
                if rnd.random() < 0.4:
                    live.close("land")

        await asyncio.gather(*(visit() for _ in range(5)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30))
def test_there_is_one_instance_of_a_session(seed: int) -> None:
    """S29: for any mix of opens and closes, no two instances of one session are unclosed at a time."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(opening(seed, Path(folder)))


@pytest.mark.parametrize("step", range(4))
async def test_an_open_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """S30: whichever step of an open fails, its error is raised, nothing of it is left, and the next open works."""
    async with running_kernel(tmp_path / "home") as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        info = session.info
        await session.close("land")
        seat = kernel.workspaces.seats[info.workspace]
        workspaces = kernel.workspaces
        read, agent, count = seat.database.read, workspaces.agent, iter(range(100))

        async def fails(fn: Any) -> Any:
            if next(count) == step:
                raise StorageUnavailable("injected")
            return await read(fn)

        def lost(workspace: Any, name: str | None) -> AgentSpec:
            raise HaloError("injected")

        monkeypatch.setattr(seat.database, "read", fails)
        if step > 1:
            monkeypatch.setattr(workspaces, "agent", lost)
        with pytest.raises(HaloError, match="injected"):
            await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        assert info.id not in seat.sessions and not kernel.sessions._opening
        monkeypatch.setattr(seat.database, "read", read)
        monkeypatch.setattr(workspaces, "agent", agent)
        again = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        assert (await again.prompt(Incoming(text="hi")).result).text == "echo: hi"


async def test_a_workspace_is_composed_once(tmp_path: Path) -> None:
    """S31: however many open a workspace at once, by path or by id, it has one seat."""
    async with running_kernel(tmp_path / "home") as kernel:
        (tmp_path / "w").mkdir()
        infos = await asyncio.gather(*(kernel.host.workspaces.open(tmp_path / "w") for _ in range(20)))
        seats = await asyncio.gather(*(kernel.workspaces.seat(infos[0].id) for _ in range(20)))
        assert len({info.id for info in infos}) == 1 and len(set(map(id, seats))) == 1


async def rows(kernel: Kernel, session: Session) -> int:
    found = await kernel.workspaces.seats[session.info.workspace].database.read(
        lambda tx: tx.one("SELECT count(*) FROM inbox")
    )
    return int(found[0]) if found else 0


async def test_refusals_leave_no_record(tmp_path: Path) -> None:
    """S40: a message that is blank, too long, over the cap, or to a closed or archived session leaves no row."""
    scripted = ScriptedModel(responder=lambda request: Hang())
    async with running_kernel(tmp_path / "home", model=scripted, env={"HALO_SESSION_MAX_QUEUE_SIZE": "2"}) as kernel:
        session: Any = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="runs"))
        await until(lambda: scripted.active)
        for text in ("one", "two"):
            await session.submit(Incoming(text=text, mode="follow_up"))
        before = await rows(kernel, session)
        refused: list[tuple[str, type[HaloError]]] = [("  ", BadInput), ("x" * 1_000_001, BadInput), ("x", QueueFull)]
        for text, error in refused:
            with pytest.raises(error):
                await session.submit(Incoming(text=text, mode="follow_up"))
        await session.archive()
        with pytest.raises(SessionClosed):
            await session.submit(Incoming(text="archived"))
        await session.close("abort")
        with pytest.raises(SessionClosed):
            await session.submit(Incoming(text="closed"))
        assert await rows(kernel, session) == before


async def test_a_journal_is_read_once_for_all_of_a_sessions_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S51: a session reads its whole journal when it sits down, and not again for its later turns."""
    from halo_kernel.sessions import session as module

    reads: list[str] = []
    folded = module.folded

    def counted(tx: Any, name: str, fold: Any) -> Any:
        reads.append(name)
        return folded(tx, name, fold)

    monkeypatch.setattr(module, "folded", counted)
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for text in ("one", "two", "three"):
            await session.prompt(Incoming(text=text)).result
        assert reads == [session.info.id]
