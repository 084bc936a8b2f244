"""The gate: plugins change while no turn runs, and nobody's message is lost or answered twice for it."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Call,
    Conflict,
    Incoming,
    InputAdded,
    Kernel,
    ModelRequest,
    SessionClosed,
    Stopping,
    ToolSpec,
    TurnStarted,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Hang,
    NoteTool,
    ScriptedModel,
    Step,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)


def gate_of(kernel: Kernel):  # type: ignore[no-untyped-def]  # a module of the kernel's own
    return kernel.sessions.gate


async def test_nothing_begins_while_the_gate_is_held(tmp_path: Path) -> None:
    """S20, S21: messages that come meanwhile are accepted, and answered afterwards in one turn, in their order."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        async with gate_of(kernel).hold():
            handles = [session.prompt(Incoming(text=f"m{number}")) for number in range(3)]
            await asyncio.gather(*(handle.accepted for handle in handles))
            await asyncio.sleep(0.1)
            assert model.requests == [] and not any(handle.result.done() for handle in handles)  # type: ignore[attr-defined]
        assert len({(await handle.result).turn for handle in handles}) == 1
        texts = [e.body.text for e in await journal(session) if isinstance(e.body, InputAdded)]
        assert texts == ["m0", "m1", "m2"] and len(model.requests) == 1


async def test_the_holder_waits_until_nothing_runs(tmp_path: Path) -> None:
    """S22: whoever holds the gate goes on when the last turn has ended, which nobody hurries."""
    gate, model = asyncio.Event(), ScriptedModel([Calls([("note", {"text": "x"})]), Answer("done")])
    async with running_kernel(
        tmp_path / "home", model=model, tools=[NoteTool(wait=lambda call: gate.wait())]
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await until(lambda: model.requests)
        held: list[str] = []

        async def change() -> None:
            async with gate_of(kernel).hold():
                held.append((await journal(session))[-1].kind)

        task = asyncio.create_task(change())
        await asyncio.sleep(0.1)
        assert held == [] and session.info.state == "running"
        gate.set()
        await task
        assert (await handle.result).text == "done" and held == ["turn.ended"]


async def test_a_session_is_born_behind_the_gate(tmp_path: Path) -> None:
    """S23: one that is made or opened while the gate is held starts no turn before it opens."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        async with gate_of(kernel).hold():
            session = await a_session(kernel, tmp_path / "w")
            await session.submit(Incoming(text="hello"))
            await asyncio.sleep(0.1)
            assert model.requests == []
        await until(lambda: len(model.requests) == 1)


class Delegate:
    """A tool that starts a session below its own and waits for the answer."""

    spec = ToolSpec(name="delegate", description="Ask another.", parameters={"type": "object"}, effect="read")

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.go = asyncio.Event()

    async def run(self, call: Call) -> str:
        self.called.set()
        await self.go.wait()
        child = await call.session.start_child("default")
        return (await child.prompt(Incoming(text="work")).result).text


async def test_a_turn_that_waits_for_a_child_comes_to_rest(tmp_path: Path) -> None:
    """S24: a turn that opens a session and waits for it finishes though the gate is held, and the holder goes on."""
    tool = Delegate()

    def respond(request: ModelRequest) -> Step:
        return Calls([("delegate", {})]) if "go" in str(request.messages[-1]) else Answer("fine")

    async with running_kernel(tmp_path / "home", model=ScriptedModel(responder=respond), tools=[tool]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await tool.called.wait()

        async def change() -> str:
            async with gate_of(kernel).hold(5):
                return (await journal(session))[-1].kind

        task = asyncio.create_task(change())
        await asyncio.sleep(0.05)
        tool.go.set()
        assert (await asyncio.wait_for(handle.result, 5)).text == "fine"
        assert await task == "turn.ended"


async def test_a_turn_that_does_not_end_is_named(tmp_path: Path) -> None:
    """S25: in time or not at all: the sessions that did not rest are named, and everybody else goes on."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        stuck, other = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        await stuck.submit(Incoming(text="go"))
        await until(lambda: model.active)

        async def change() -> None:
            async with gate_of(kernel).hold(0.3):
                raise AssertionError("a turn runs")

        task = asyncio.create_task(change())
        await asyncio.sleep(0.05)
        handle = other.prompt(Incoming(text="hello"))
        with pytest.raises(Conflict, match=r"did not rest in 0\.3 s: ") as refused:
            await task
        assert stuck.info.id in refused.value.message and other.info.id not in refused.value.message
        assert (await handle.result).outcome == "succeeded" and model.active == 1


async def test_a_second_holder_is_refused_at_once(tmp_path: Path) -> None:
    """S28: one change at a time; what is held can be closed, and what waits there fails as closed."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        async with gate_of(kernel).hold():
            with pytest.raises(Conflict, match="under way"):
                async with gate_of(kernel).hold():
                    pass
            handle = session.prompt(Incoming(text="hello"))
            await handle.accepted
            await session.close("abort")  # type: ignore[attr-defined]
            with pytest.raises(Stopping):
                await handle.result
            with pytest.raises(SessionClosed):
                await session.submit(Incoming(text="more"))
        again = await kernel.host.sessions.open(session.info.id, workspace=session.info.workspace, principal=OPERATOR)
        await until(lambda: again.info.head > 5 and again.info.state == "idle")
        assert await again.output() == "echo: hello", "what was accepted is answered"


async def test_a_failing_change_opens_the_gate(tmp_path: Path) -> None:
    """An error of whoever holds the gate is theirs; the gate is open again."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.raises(TimeoutError, match="mine"):
            async with gate_of(kernel).hold():
                handle = session.prompt(Incoming(text="hello"))
                raise TimeoutError("mine")
        assert (await handle.result).outcome == "succeeded"


async def _scenario(seed: int, home: Path) -> None:
    rnd, model = random.Random(seed), ScriptedModel(responder=lambda request: Answer("a"))
    tool = NoteTool(wait=lambda call: asyncio.sleep(rnd.random() * 0.003))
    async with running_kernel(home / "home", model=model, tools=[tool], clock=VirtualClock()) as kernel:
        sessions = [await a_session(kernel, home / "w") for _ in range(3)]
        sessions.append(await sessions[0].start_child("default"))
        handles = []

        async def say(number: int) -> None:
            await asyncio.sleep(rnd.random() * 0.05)
            mode = rnd.choice(["steer", "follow_up", "interrupt_soft", "interrupt_hard"])
            handles.append(rnd.choice(sessions).prompt(Incoming(text=f"m{number}", mode=mode)))  # type: ignore[arg-type]

        async def change() -> None:
            await asyncio.sleep(rnd.random() * 0.04)
            try:
                async with gate_of(kernel).hold(1):
                    asked = len(model.requests)
                    await asyncio.sleep(rnd.random() * 0.01)
                    assert len(model.requests) == asked and model.active == 0, "a turn ran in the quiet moment"
            except Conflict:
                pass

        await asyncio.gather(*(say(number) for number in range(8)), *(change() for _ in range(3)))
        results = await asyncio.wait_for(asyncio.gather(*(handle.result for handle in handles)), 10)
        assert {result.outcome for result in results} <= {"succeeded", "interrupted"}
        for session in sessions:
            rows = [e.body.rows for e in await journal(session) if isinstance(e.body, TurnStarted)]
            assert len(sum(rows, ())) == len(set(sum(rows, ()))), "nothing is answered twice"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_no_schedule_breaks_the_quiet_moment(seed: int) -> None:
    """S22: whatever is sent when, no turn runs while the gate is held, and everything is answered once."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_scenario(seed, Path(folder)))
