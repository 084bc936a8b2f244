"""A team of scripted agents in a real kernel: what each session says is written in the message that it got."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import halo_team
from halo_kernel import (
    OPERATOR,
    AgentSource,
    AgentSpec,
    Incoming,
    ModelRequest,
    Principal,
    Session,
    Text,
    ToolFinished,
    WorkspaceInfo,
    hook,
)
from halo_kernel.testing import Answer, Calls, Fail, Hang, ScriptedModel, Step, Workbench, journal

TEAM = ("lead", "worker", "middle", "hidden", "missing")
AGENTS = (
    AgentSpec(id="lead", name="Lead", description="Gives work away.", tools=("note",), team=TEAM, priority=9),
    AgentSpec(id="worker", name="worker", description="Does the work.", tools=("note", "file_write", "shell_exec")),
    AgentSpec(id="middle", name="Middle", team=("worker", "middle"), priority=5),
    AgentSpec(id="hidden", name="Hidden", internal=True, team=("worker",)),
    AgentSpec(id="stranger", name="Stranger"),
    AgentSpec(id="nobody", name="Nobody", team=()),
)
NINE = {
    "start_session",
    "session_list",
    "query_session",
    "interrupt_session",
    "stop_session",
    "archive_session",
    "get_session_output",
    "query_agent",
    "continue_task",
}
_ORDER = re.compile(r"do: (say|fail|hang|call)(?: (.*))?", re.DOTALL)


@dataclass
class Agents:
    """A plugin with agents that a test may change."""

    specs: list[AgentSpec] = field(default_factory=lambda: list(AGENTS))

    @hook
    def provide_agents(self) -> Iterable[AgentSource]:
        return [self]

    def find(self, workspace: WorkspaceInfo, agent: str) -> AgentSpec | None:
        return next((each for each in self.specs if each.id == agent), None)

    def list(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        return self.specs


@dataclass
class Orders:
    """A model that does what the last message of a session tells it: `do: say x`, `fail`, `hang`, `call <name> <json>`.

    `plans` go first, by session.
    """

    plans: dict[str, list[Step]] = field(default_factory=dict[str, list[Step]])

    def __call__(self, request: ModelRequest) -> Step:
        if plan := self.plans.get(request.session):
            return plan.pop(0)
        blocks = [block for block in request.messages[-1].content if isinstance(block, Text)]
        found = _ORDER.search(blocks[-1].text.partition("\n\n[System")[0]) if blocks else None
        match found and found.groups():
            case ("say", text):
                return Answer(text)
            case ("fail", why):
                return Fail("refused", why or "it broke")
            case ("hang", _):
                return Hang()
            case ("call", text):
                name, _, arguments = text.partition(" ")
                return Calls([(name, json.loads(arguments))])
            case _:
                return Answer("done")


@dataclass
class Desk:
    """A session of the agent `lead`, and calls of tools by it."""

    halo: Workbench
    orders: Orders
    session: Session

    async def call(
        self, name: str, session: Session | None = None, *, who: Principal = OPERATOR, **arguments: object
    ) -> ToolFinished:
        """Have a session's model call a tool for somebody, and return the result."""
        caller = session or self.session
        order = f"do: call {name} {json.dumps(arguments)}"
        await caller.prompt(Incoming(text=order, mode="follow_up", principal=who)).result
        return next(body for body in reversed(await bodies(caller)) if isinstance(body, ToolFinished))

    async def ask(
        self, name: str, session: Session | None = None, *, who: Principal = OPERATOR, **arguments: object
    ) -> dict[str, Any]:
        """Have a session's model call a tool, and return what it answers."""
        done = await self.call(name, session, who=who, **arguments)
        assert done.outcome == "ok", done.text
        return json.loads(done.text)

    async def start(self, message: str, agent: str = "worker", by: Session | None = None, **more: object) -> Session:
        """Have the lead start a session."""
        found = await self.ask("start_session", by, agent_id=agent, message=message, **more)
        assert found["code"] == 0, found
        return await self.open(found["session_id"])

    async def open(self, name: str) -> Session:
        assert self.halo.kernel is not None
        info = self.session.info
        owner = Principal(name=info.principal, kind=info.principal_kind)
        return await self.halo.kernel.host.sessions.open(name, workspace=info.workspace, principal=owner)


async def rest(session: Session) -> None:
    """Return when nothing of a tree works, and every report is read."""

    async def looks() -> bool:
        busy = session.info.state == "running" or await session.waiting() or await session.children(working=True)
        return not busy

    for _ in range(2):  # what rests may just be about to read the last report
        await eventually(looks)
        await asyncio.sleep(0.05)
    await eventually(looks)


async def bodies(session: Session) -> list[Any]:
    return [event.body for event in await journal(session)]


async def inputs(session: Session) -> list[Any]:
    """Return what a session was told, oldest first."""
    return [event.body for event in await journal(session) if event.kind == "input.added"]


async def ends(session: Session) -> list[str]:
    """Return how its turns ended."""
    return [event.body.outcome for event in await journal(session) if event.kind == "turn.ended"]


async def eventually(look: Any, seconds: float = 10.0) -> Any:
    """Return what the coroutine function `look` returns once that is true."""
    for _ in range(int(seconds / 0.02)):
        if found := await look():
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"it did not come to pass: {await look()}")


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
def orders(scripted_model: ScriptedModel) -> Orders:
    orders = Orders()
    scripted_model.responder = orders
    return orders


@pytest.fixture
def halo_plugins(agents: Agents) -> dict[str, object]:
    return {"team": halo_team, "agents": agents}


@pytest.fixture
async def desk(halo: Workbench, orders: Orders) -> Desk:
    return Desk(halo, orders, await halo.session(agent="lead"))
