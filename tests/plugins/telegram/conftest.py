"""A platform of the tests' own, a bot on it, and a server's kernel that receives with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.platforms.telegram import Stage, TelegramServer

from halo_kernel import Account, Kernel, ModelRequest, Text
from halo_kernel.testing import Answer, Workbench

Serve = Callable[..., Awaitable[Kernel]]


@pytest.fixture
def halo_plugins() -> list[str]:
    """The plugin that the kernel of a test has."""
    return ["halo_telegram"]


@pytest.fixture
async def platform_server(halo: Workbench) -> AsyncGenerator[TelegramServer]:
    """A platform with one bot; it ends before the workbench looks for what is left behind."""
    async with TelegramServer() as server:
        server.stage.bot()
        yield server


@pytest.fixture
def stage(platform_server: TelegramServer) -> Stage:
    """Its people, and what they see."""
    return platform_server.stage


@pytest.fixture
def telegram_env(platform_server: TelegramServer) -> Mapping[str, str]:
    """The environment that the plugin reads its settings from."""
    (token,) = platform_server.world.bots
    return {"HALO_TELEGRAM_BASE_URL": platform_server.url, "HALO_TELEGRAM_TOKEN": token}


@pytest.fixture
async def serve(halo: Workbench, telegram_env: Mapping[str, str]) -> Serve:
    """Start what a server starts, with one account; again if it runs."""

    halo.model.responder = repeat

    async def start(
        *, tools: Any = (), plugins: Any = (), env: Mapping[str, str] | None = None, **fields: Any
    ) -> Kernel:
        halo.folder.mkdir(parents=True, exist_ok=True)
        kernel = await halo.start(env={**telegram_env, **(env or {})}, tools=tools, plugins=plugins)
        given = {"access": "workspace", **fields}
        await kernel.host.accounts.put(Account(type="telegram", id="bot", workspace=str(halo.folder), **given))
        await kernel.work()
        return kernel

    return start


def last_said(request: ModelRequest) -> str:
    """Return the last message that a model was told, without the line that names its user."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return texts[-1].partition("]\n")[2]


def repeat(request: ModelRequest) -> Answer:
    """Answer with what was said."""
    return Answer(f"You said: {last_said(request)}")
