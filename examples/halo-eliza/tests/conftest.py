"""What all tests share."""

from collections.abc import Iterator, Mapping

import pytest

from eliza_server import KEY, ElizaServer


@pytest.fixture
def halo_plugins() -> list[str]:
    """The plugin that the kernel of a test has."""
    return ["halo_eliza"]


@pytest.fixture
def eliza() -> Iterator[ElizaServer]:
    """A server that wants a key."""
    with ElizaServer() as server:
        yield server


@pytest.fixture
def env(eliza: ElizaServer) -> Mapping[str, str]:
    """The environment that the plugin reads its settings from."""
    return {"HALO_ELIZA_BASE_URL": eliza.url, "ELIZA_API_KEY": KEY, "HALO_ELIZA_TIMEOUT": "2"}
