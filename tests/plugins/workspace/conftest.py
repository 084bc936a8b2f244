"""A kernel with this plugin and a scripted model, and a workspace made of files."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import halo_workspace
from halo_kernel import AgentSpec, ContextPart, Kernel, SessionInfo, hook
from halo_kernel.testing import ScriptedModel


class OneModel:
    """A plugin with nothing but a model."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    @hook
    def provide_models(self) -> Sequence[ScriptedModel]:
        return [self._model]


@dataclass(frozen=True)
class Seen:
    """A session as far as the prompt looks at it."""

    info: SessionInfo
    agent: AgentSpec


@dataclass(frozen=True)
class Site:
    """A home and a workspace in a temporary folder."""

    home: Path
    folder: Path

    def write(self, files: Mapping[str, str]) -> None:
        """Write files; names begin with `home/` or `workspace/`."""
        for name, text in files.items():
            place, _, rest = name.partition("/")
            path = (self.home / "global" if place == "home" else self.folder) / rest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def session(self, workspace: str, agent: AgentSpec, **changes: object) -> Seen:
        given: dict[str, object] = {"id": "s", "root": "s", "workspace": workspace, "folder": str(self.folder)}
        given |= {"agent": agent.id, "access": "full", "principal": "operator", **changes}
        return Seen(SessionInfo(**given), agent)  # type: ignore[arg-type]

    async def parts(self, kernel: Kernel, agent: str | None = None, **changes: object) -> list[ContextPart]:
        """Return the prompt's parts for a session of `agent`."""
        workspace = await kernel.workspaces.open(self.folder)
        spec = kernel.workspaces.agent(workspace, agent)
        seen = self.session(workspace.id, spec, **changes)
        return list(await halo_workspace.prepare_context(seen))  # type: ignore[arg-type]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Site(tmp_path / "home", folder)


@pytest.fixture
def new_site() -> type[Site]:
    return Site


Running = Callable[..., AbstractAsyncContextManager[Kernel]]


@pytest.fixture
def running(site: Site) -> Running:
    """Start a kernel on the site's home with this plugin."""

    @asynccontextmanager
    async def start(model: ScriptedModel | None = None) -> AsyncGenerator[Kernel, None]:
        extra = {"workspace": halo_workspace, "model": OneModel(model or ScriptedModel())}
        kernel = await Kernel.start(site.home, extra=extra, discover=False, env={})
        try:
            yield kernel
        finally:
            await kernel.close()

    return start


class Recorder:
    """A log that keeps its warnings."""

    def __init__(self) -> None:
        self.warnings: list[dict[str, object]] = []

    def warning(self, event: str, **facts: object) -> None:
        self.warnings.append({"event": event, **facts})


@pytest.fixture
def log() -> Recorder:
    return Recorder()
