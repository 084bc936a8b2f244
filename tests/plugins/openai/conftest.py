"""Providers over a home of the test's own, and settings that are read like a server's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import pytest

from halo_kernel import ModelProvider
from halo_kernel.settings import Settings
from halo_openai.family import providers
from halo_openai.settings import SECTION, VARIABLES

Family = dict[str, ModelProvider]
MakeFamily = Callable[[Mapping[str, str]], Family]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "global" / "models").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
async def family(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[MakeFamily, None]:
    """Make the providers by name for an environment, which is all there is of one; they are closed at the end."""
    for name in ("OPENAI_BASE_URL", "OPENAI_MODEL", *(each for names in VARIABLES.values() for each in names)):
        monkeypatch.delenv(name, raising=False)
    made: list[ModelProvider] = []

    def make(env: Mapping[str, str]) -> Family:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        found = providers(Settings(home, [("openai", SECTION)], dict(env)))
        made.extend(found)
        return {provider.name: provider for provider in found}

    yield make
    for provider in made:
        await provider.close()
