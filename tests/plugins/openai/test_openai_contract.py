"""A provider of chat completions holds to the contract of model providers, over a real connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import pytest

from halo_kernel import ModelErrorKind
from halo_kernel.testing import ModelContract, assert_plugin_ok
from halo_kernel.testing.openai_server import Script, ScriptedOpenAI

FAULTS: Mapping[ModelErrorKind, Script] = {
    "throttle": Script(status=429, headers={"retry-after": "1"}),
    "server": Script(status=500),
    "network": Script(text="half of it", pieces=4, cut_at=2, cut="abort"),
    "account": Script(status=401),
    "refused": Script(status=400),
}


def test_the_plugin_keeps_the_rules() -> None:
    """It loads, declares what it imports, and imports its own modules relatively."""
    assert_plugin_ok("halo_openai")


class TestOpenAI(ModelContract):
    provider_name = "custom"
    faults = tuple(FAULTS)
    can_hang = True

    @pytest.fixture
    def halo_plugins(self) -> list[str]:
        return ["halo_openai"]

    @pytest.fixture
    async def provider_env(self) -> AsyncGenerator[Mapping[str, str], None]:
        async with ScriptedOpenAI() as self.server:
            yield {"OPENAI_BASE_URL": self.server.url, "OPENAI_API_KEY": "sk-0123456789", "OPENAI_MODEL": "m"}

    def fail_next(self, kind: ModelErrorKind) -> None:
        self.server.scripts.append(FAULTS[kind])

    def hang_next(self) -> None:
        self.server.scripts.append(Script(text="a b c", pieces=3, hang_at=2))
