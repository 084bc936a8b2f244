"""A workspace of a kernel with search, over its real routes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

import halo_search
from halo_kernel import OPERATOR, Incoming, Kernel, Principal, Session, Tool, hook
from halo_kernel.testing import NoteTool, Workbench, front
from halo_search import searching


@dataclass(frozen=True)
class Desk:
    """A workbench with search; `kernel` is the one that runs, `client` the operator at its workspace's routes."""

    bench: Workbench
    kernel: Kernel
    client: httpx.AsyncClient

    @property
    def workspace(self) -> str:
        """The workspace's id."""
        return self.client.base_url.path.strip("/").rpartition("/")[2]

    async def say(self, *texts: str, principal: Principal = OPERATOR, session: Session | None = None) -> Session:
        """Return a session, a new one unless it is given, after a turn for each text; the model repeats it."""
        found = session or await self.bench.session(principal=principal)
        for text in texts:
            await found.prompt(Incoming(text=text, principal=principal)).result
        return found

    async def search(self, q: str, **more: str | int) -> dict[str, Any]:
        """Ask the route and return its answer."""
        reply = await self.client.get("/search", params={"q": q, **more})
        assert reply.status_code == 200, reply.text
        answer: dict[str, Any] = reply.json()
        return answer

    async def texts(self, q: str, kind: str = "user", **more: str | int) -> list[str]:
        """Return the shown texts of one kind that a search finds, in its order."""
        hits = (await self.search(q, **more))["hits"]
        return ["".join(piece["text"] for piece in hit["snippet"]) for hit in hits if hit["kind"] == kind]


class Notes:
    """A plugin with one tool."""

    @hook
    def provide_tools(self) -> list[Tool]:
        """The tool `note`."""
        return [NoteTool()]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches wait longer for what is not indexed yet: the machine may have other work."""
    monkeypatch.setattr(searching, "_PATIENCE", 30.0)


@pytest.fixture
def halo_plugins() -> list[object]:
    """The plugin under test, and one with a tool."""
    return [halo_search, Notes()]


@asynccontextmanager
async def desk_of(halo: Workbench, *, installed: bool = False) -> AsyncGenerator[Desk]:
    """Start a kernel on a workbench, after closing the one that runs, and open its workspace.

    With `installed`, the plugin is the one that is found by its entry point.
    """
    kernel = await halo.start(discover=installed, env={"HALO_PLUGINS": "search"} if installed else None)
    halo.folder.mkdir(exist_ok=True)
    workspace = await kernel.host.workspaces.open(halo.folder)
    face = front(kernel)
    base = f"http://localhost:9527/api/workspaces/{workspace.id}"
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url=base, headers=face.headers) as client:
        yield Desk(halo, kernel, client)


@pytest.fixture
async def desk(halo: Workbench) -> AsyncIterator[Desk]:
    """A desk whose storage runs every function twice, as the contract allows."""
    async with desk_of(halo) as desk:
        yield desk
