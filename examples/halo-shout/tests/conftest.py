"""What all tests share."""

import socket
from collections.abc import Mapping

import pytest

from client import TOKEN


@pytest.fixture
def halo_plugins() -> list[str]:
    """The plugin that the kernel of a test has."""
    return ["halo_shout"]


@pytest.fixture
def port() -> int:
    """A port that is free."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.fixture
def shout_env(port: int) -> Mapping[str, str]:
    """The environment that the plugin reads its settings from."""
    return {"HALO_SHOUT_PORT": str(port), "HALO_SHOUT_TOKEN": TOKEN}
