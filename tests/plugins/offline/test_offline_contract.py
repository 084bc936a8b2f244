"""The rules that answer without a model hold to the contract of model providers."""

from __future__ import annotations

import pytest

from halo_kernel.testing import ModelContract, assert_plugin_ok


def test_the_plugin_keeps_the_rules() -> None:
    """It loads, declares what it imports, and imports its own modules relatively."""
    assert_plugin_ok("halo_offline")


class TestRules(ModelContract):
    provider_name = "offline"

    @pytest.fixture
    def halo_plugins(self) -> list[str]:
        return ["halo_offline"]
