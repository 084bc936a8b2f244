"""Recovery at its edges: agents that are gone, recoveries that meet, and turns that no storage lets end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from halo_kernel import (
    OPERATOR,
    AgentSpec,
    BadFile,
    Event,
    Incoming,
    InputAdded,
    Kernel,
    ModelRequest,
    Place,
    Session,
    StorageUnavailable,
    TurnEnded,
    TurnStarted,
    WorkspaceInfo,
    hook,
)
from halo_kernel.testing import Answer, FaultyStorage, Hang, ScriptedModel, Step, journal, running_kernel, until


async def reopened(kernel: Kernel, session: Session) -> Session:
    info = session.info
    return await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)


def ends(events: list[Event]) -> list[str]:
    return [event.body.outcome for event in events if isinstance(event.body, TurnEnded)]


class Agents:
    """Two agents, one of whom may be broken or gone."""

    def __init__(self, failure: BaseException | None = None, *, gone: bool = False) -> None:
        self.failure = failure
        self.gone = gone

    @hook
    def provide_agents(self) -> Sequence[Agents]:
        return [self]

    def find(self, workspace: WorkspaceInfo, agent: str) -> AgentSpec | None:
        if agent == "fragile" and self.failure is not None:
            raise self.failure
        found = {spec.id: spec for spec in self.list(workspace)}
        return found.get(agent)

    def list(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        sturdy = AgentSpec(id="sturdy", name="Sturdy", priority=1)
        return [sturdy] if self.gone or self.failure else [sturdy, AgentSpec(id="fragile", name="Fragile")]


@pytest.mark.parametrize(
    "agents",
    [Agents(gone=True), Agents(BadFile("line 3: no mapping", path="agent.yaml")), Agents(RuntimeError("a bug"))],
    ids=["gone", "broken", "bug"],
)
async def test_an_agent_that_is_broken_keeps_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agents: Agents
) -> None:
    """Sessions of an agent that is gone or broken keep their messages, and go on when it is mended; others go on."""
    monkeypatch.setattr("halo_kernel.workspaces._LOOK_SECONDS", 0.05)
    home, folder = tmp_path / "home", tmp_path / "w"
    folder.mkdir()
    model = ScriptedModel([Hang(), Hang()])
    async with running_kernel(home, model=model, extra={"agents": Agents()}) as kernel:
        workspace = await kernel.host.workspaces.open(folder)
        sessions = [
            await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR, agent=agent)
            for agent in ("fragile", "sturdy")
        ]
        for session in sessions:
            await session.submit(Incoming(text="question"))
        await until(lambda: model.active == 2)
    model = ScriptedModel()
    async with running_kernel(home, model=model, extra={"agents": agents}) as kernel:
        await kernel.work()
        sturdy = await reopened(kernel, sessions[1])
        await until(lambda: model.requests and sturdy.info.state == "idle")
        assert ends(await journal(sturdy)) == ["interrupted", "succeeded"]
        assert len(model.requests) == 1
        agents.failure, agents.gone = None, False
        await until(lambda: len(model.requests) == 2)
        fragile = await reopened(kernel, sessions[0])
        await until(lambda: fragile.info.state == "idle")
        assert ends(await journal(fragile)) == ["interrupted", "succeeded"]


async def test_recovering_twice_is_recovering_once(tmp_path: Path) -> None:
    """S49: recoveries that meet, or come after one another, end each cut turn once and nudge once."""
    home = tmp_path / "home"
    (tmp_path / "w").mkdir()
    model = ScriptedModel([Hang()])
    async with running_kernel(home, model=model) as kernel:
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        await session.submit(Incoming(text="question"))
        await until(lambda: model.active)
    model = ScriptedModel()
    async with running_kernel(home, model=model, recover=False) as kernel:
        await asyncio.gather(kernel.recover(), kernel.recover(), reopened(kernel, session))
        await kernel.recover()
        session = await reopened(kernel, session)
        await until(lambda: model.requests and session.info.state == "idle")
        await kernel.recover()
        events = await journal(session)
        assert ends(events) == ["interrupted", "succeeded"]
        causes = [event.body.cause for event in events if isinstance(event.body, InputAdded)]
        assert causes == ["message", "recovery"]


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.006, 0.01])
async def test_a_close_in_the_middle_of_a_recovery_loses_nothing(tmp_path: Path, delay: float) -> None:
    """S49: whenever the kernel closes again while it recovers, the next one goes on."""
    home = tmp_path / "home"
    (tmp_path / "w").mkdir()
    model = ScriptedModel([Hang()])
    async with running_kernel(home, model=model) as kernel:
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        await session.submit(Incoming(text="question"))
        await until(lambda: model.active)
    async with running_kernel(home, model=ScriptedModel([Hang()]), recover=False) as kernel:
        recovering = asyncio.create_task(kernel.recover())
        await asyncio.sleep(delay)
        await kernel.close()
        await asyncio.wait({recovering})
    async with running_kernel(home) as kernel:
        session = await reopened(kernel, session)
        await until(lambda: session.info.state == "idle")
        await asyncio.sleep(0.05)
        events = await journal(session)
        assert ends(events)[-1] == "succeeded" and set(ends(events)[:-1]) <= {"interrupted"}
        started = [event.turn for event in events if isinstance(event.body, TurnStarted)]
        assert started == [event.turn for event in events if isinstance(event.body, TurnEnded)]


async def test_a_storage_that_never_lets_a_turn_end_parks_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be ended three times in a row is not tried for ever; followers see why, and a message frees it."""
    monkeypatch.setattr("halo_kernel.sessions.session._HELD_SECONDS", 0.02)
    left = [0]

    def answer(request: ModelRequest) -> Step:
        left[0] = 3  # what is streamed, the answer, the turn's end
        return Answer("lost")

    def before(place: Place, number: int) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise StorageUnavailable("injected")

    faulty, model = FaultyStorage(before), ScriptedModel(responder=answer)
    (tmp_path / "w").mkdir()
    async with running_kernel(tmp_path / "home", model=model, extra={"faulty": faulty}) as kernel:
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        follower = session.events(live=True)
        await session.submit(Incoming(text="question"))
        seen: list[str] = []
        async with asyncio.timeout(10):
            async for update in follower:
                if update.event and isinstance(update.event.body, TurnEnded):
                    seen.append(update.event.body.error)
                    if len(seen) == 3:
                        break
        await follower.aclose()
        assert "send a message" in seen[-1] and len(model.requests) == 3
        await asyncio.sleep(0.2)
        assert len(model.requests) == 3 and session.info.parked
        written: list[int] = []
        faulty.before = lambda place, number: written.append(number) if place.name == "halo" else None
        session.stir()  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        assert written == [], "a parked session is silent"
        partial = session.seat.feed._partials.get(session.info.id)  # type: ignore[attr-defined]
        assert partial is None, "nothing is shown as unfinished"
        faulty.before = None
        assert (await session.prompt(Incoming(text="and now?")).result).outcome == "succeeded"
