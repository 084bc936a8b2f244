"""Workspaces of a kernel with search, over its real routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import halo_search
from halo_kernel import OPERATOR, Incoming, Kernel, Principal, Session
from halo_kernel.testing import a_session, front, running_kernel

Search = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Kernel]:
    """A kernel with the plugin, and a model that repeats what is said."""
    async with running_kernel(tmp_path / "home", extra={"search": halo_search}) as kernel:
        yield kernel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the workspace."""
    return tmp_path / "w"


@pytest.fixture
def say(kernel: Kernel, folder: Path) -> Callable[..., Awaitable[Session]]:
    """What makes a session, of the operator unless told, with a turn for each text."""

    async def made(*texts: str, principal: Principal = OPERATOR) -> Session:
        session = await a_session(kernel, folder, principal)
        for text in texts:
            await session.prompt(Incoming(text=text, principal=principal)).result
        return session

    return made


@pytest.fixture
async def client(kernel: Kernel, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The operator, at the workspace's routes."""
    folder.mkdir(exist_ok=True)
    workspace = await kernel.host.workspaces.open(folder)
    face = front(kernel)
    base = f"http://localhost:9527/api/workspaces/{workspace.id}"
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url=base, headers=face.headers) as client:
        yield client


@pytest.fixture
def search(client: httpx.AsyncClient) -> Search:
    """What asks the route and returns its answer."""

    async def ask(q: str, **more: object) -> dict[str, Any]:
        reply = await client.get("/search", params={"q": q, **more})  # type: ignore[arg-type]
        assert reply.status_code == 200, reply.text
        answer: dict[str, Any] = reply.json()
        return answer

    return ask
