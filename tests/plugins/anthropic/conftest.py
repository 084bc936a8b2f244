"""Providers over a home of the test's own, and settings that are read like a server's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from halo_anthropic.family import providers
from halo_anthropic.settings import SECTION, VARIABLES
from halo_kernel import ModelProvider
from halo_kernel.settings import Settings
from halo_kernel.testing.anthropic_server import Script, ScriptedAnthropic

KEY = "sk-ant-very-secret-0123456789"
MakeFamily = Callable[[Mapping[str, str]], dict[str, ModelProvider]]
Play = Callable[..., Awaitable[tuple[ScriptedAnthropic, ModelProvider]]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "global" / "models").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
async def vendors(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[MakeFamily, None]:
    """Make the providers by name for an environment, which is all there is of one; they are closed at the end."""
    for name in ("ANTHROPIC_BASE_URL", *(each for names in VARIABLES.values() for each in names)):
        monkeypatch.delenv(name, raising=False)
    made: list[ModelProvider] = []

    def make(env: Mapping[str, str]) -> dict[str, ModelProvider]:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        found = providers(Settings(home, [("anthropic", SECTION)], dict(env)))
        made.extend(found)
        return {provider.name: provider for provider in found}

    yield make
    for provider in made:
        await provider.close()


@pytest.fixture
async def play(vendors: MakeFamily) -> AsyncGenerator[Play, None]:
    """Start a server with these scripts and return it with its provider."""
    servers: list[ScriptedAnthropic] = []

    async def start(*scripts: Script, **options: Any) -> tuple[ScriptedAnthropic, ModelProvider]:
        server = await ScriptedAnthropic(scripts, **options).__aenter__()
        servers.append(server)
        return server, vendors({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY})["anthropic"]

    yield start
    for server in servers:
        await server.__aexit__(None, None, None)
