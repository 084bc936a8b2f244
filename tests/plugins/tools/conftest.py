"""A desk to call tools at: a workspace and a home outside /tmp, and calls like the kernel's."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from halo_kernel import Access, AgentSpec, SessionInfo, ToolSpec, WorkspaceInfo
from halo_tools.jail import Bubblewrap
from halo_tools.kit import tools_for
from halo_tools.settings import ToolSettings


class FakeCancel:
    def __init__(self) -> None:
        self.event = asyncio.Event()

    @property
    def requested(self) -> bool:
        return self.event.is_set()

    async def wait(self) -> None:
        await self.event.wait()


@dataclass
class FakeSession:
    info: SessionInfo
    agent: AgentSpec = field(default_factory=lambda: AgentSpec(id="default", name="Default"))


@dataclass
class FakeCall:
    session: Any
    tool: ToolSpec
    arguments: Mapping[str, object]
    access: Access
    cancel: FakeCancel
    told: list[str] = field(default_factory=list)
    id: str = "call-1"
    turn: str = "turn-1"

    def progress(self, text: str) -> None:
        self.told.append(text)


@dataclass
class FakeSettings:
    home: Path
    tools: ToolSettings

    def of(self, section: type[Any]) -> Any:
        return self.tools


@dataclass
class FakeWorkspaces:
    paths: list[str] = field(default_factory=list)

    async def list(self) -> list[WorkspaceInfo]:
        return [WorkspaceInfo(id=path, path=path) for path in self.paths]


@dataclass
class FakeHost:
    settings: FakeSettings
    workspaces: FakeWorkspaces


@dataclass
class Desk:
    """Calls tools as the kernel does. `folder` is the workspace, `home` the person's, `halo` is HALO_HOME."""

    base: Path
    settings: ToolSettings = field(default_factory=ToolSettings)
    sandbox: Bubblewrap = field(default_factory=Bubblewrap)
    others: list[str] = field(default_factory=list)
    cancel: FakeCancel | None = None
    told: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.base / "workspace"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def halo(self) -> Path:
        return self.base / "halo"

    def set(self, **values: object) -> None:
        self.settings = msgspec.structs.replace(self.settings, **values)

    def tools(self, access: Access = "full") -> dict[str, Any]:
        info = SessionInfo(
            id="s",
            root="s",
            workspace="w",
            folder=str(self.folder),
            agent="default",
            access=access,
            principal="operator",
        )
        host: Any = FakeHost(FakeSettings(self.halo, self.settings), FakeWorkspaces(self.others))
        session: Any = FakeSession(info)
        return {tool.spec.name: (tool, session) for tool in tools_for(session, host, self.sandbox)}

    async def call(self, name: str, access: Access = "full", turn: Access | None = None, **arguments: object) -> str:
        tool, session = self.tools(access)[name]
        cancel = self.cancel or FakeCancel()
        return await tool.run(FakeCall(session, tool.spec, arguments, turn or access, cancel, self.told))

    def write(self, path: str, content: str | bytes = "") -> Path:
        full = self.folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content.encode() if isinstance(content, str) else content)
        return full


@contextmanager
def desk_in(folder: Path) -> Iterator[Desk]:
    """Set up a desk in a new folder below `folder`, and take it away afterwards."""
    base = Path(os.path.realpath(tempfile.mkdtemp(dir=folder, prefix="halo-test-")))
    desk = Desk(base)
    for each in (desk.folder / ".halo", desk.home, desk.halo / "secrets", desk.halo / "global"):
        each.mkdir(parents=True)
    try:
        yield desk
    finally:
        shutil.rmtree(base)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    # Not below /tmp, which is empty in the sandbox whatever the tools do.
    with desk_in(Path("/var/tmp")) as desk:
        monkeypatch.setenv("HOME", str(desk.home))
        yield desk


@pytest.fixture(params=["/tmp", "/dev/shm"])
def hidden_desk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk all of which lies where the sandbox mounts something of its own."""
    with desk_in(Path(request.param)) as desk:
        monkeypatch.setenv("HOME", str(desk.home))
        yield desk
