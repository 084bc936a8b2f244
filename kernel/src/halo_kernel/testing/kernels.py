"""A kernel for a test: a home of its own, no installed plugins, a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ..contracts import Clock, Tool
from ..errors import HaloError
from ..hookspecs import hook
from ..records import AgentSpec, WorkspaceInfo
from ..runtime import Kernel
from .model import ScriptedModel


class _OneAgent:
    def __init__(self, agent: AgentSpec) -> None:
        self._agent = agent

    def find(self, workspace: WorkspaceInfo, agent: str) -> AgentSpec | None:
        return self._agent if agent == self._agent.id else None

    def list(self, workspace: WorkspaceInfo) -> Sequence[AgentSpec]:
        return [self._agent]


class SimplePlugin:
    """A plugin with one model, one agent and some tools, for a kernel without any other."""

    def __init__(self, model: ScriptedModel, tools: Sequence[Tool] = (), agent: AgentSpec | None = None) -> None:
        self._model = model
        self._tools = tools
        self._agent = agent or AgentSpec(id="default", name="Default")

    @hook
    def provide_models(self) -> Sequence[ScriptedModel]:
        """The scripted model."""
        return [self._model]

    @hook
    def provide_agents(self) -> Sequence[_OneAgent]:
        """The one agent."""
        return [_OneAgent(self._agent)]

    @hook
    def provide_tools(self) -> Sequence[Tool]:
        """The given tools."""
        return self._tools


@asynccontextmanager
async def running_kernel(
    home: Path,
    *,
    model: ScriptedModel | None = None,
    tools: Sequence[Tool] = (),
    extra: Mapping[str, object] | None = None,
    discover: bool = False,
    clock: Clock | None = None,
    recover: bool = True,
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Kernel, None]:
    """Run a kernel on `home` that needs no configuration; `extra` are further plugins by name."""
    plugins: dict[str, object] = {"test": SimplePlugin(model or ScriptedModel(), tools), **(extra or {})}
    kernel = await Kernel.start(home, extra=plugins, discover=discover, clock=clock, env=env or {}, strict=False)
    broken = [row for row in kernel.plugins.list() if row.state not in ("loaded", "disabled")]
    try:
        if broken and not discover:
            raise HaloError(f"plugin {broken[0].name} did not load: {broken[0].reason}")
        if recover:
            await kernel.recover()
        yield kernel
    finally:
        await kernel.close()
