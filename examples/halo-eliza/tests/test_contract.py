"""What every provider, and every plugin, has to hold to."""

from collections.abc import Mapping

import pytest

from eliza_server import ElizaServer
from halo_kernel import ModelErrorKind
from halo_kernel.testing import ModelContract, check_plugin


class TestEliza(ModelContract):
    """The kit's tests of a provider, before a server with faults."""

    provider_name = "eliza"
    faults = ("throttle", "server", "network", "account", "overflow", "refused")
    can_hang = True

    @pytest.fixture(autouse=True)
    def far_end(self, eliza: ElizaServer) -> None:
        """Keep the server that `fail_next` and `hang_next` speak to."""
        self.server = eliza

    @pytest.fixture
    def provider_env(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """The environment of the plugin."""
        return env

    def fail_next(self, kind: ModelErrorKind) -> None:
        """The faults of the server are called as the kinds are."""
        self.server.script = [kind]

    def hang_next(self) -> None:
        """Begin an answer, and say no more."""
        self.server.script = ["hang"]


def test_the_rules_are_kept() -> None:
    """The plugin is packed and declared as the kernel wants it."""
    assert check_plugin("halo_eliza") == []
