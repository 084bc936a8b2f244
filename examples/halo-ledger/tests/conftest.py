"""What all tests share."""

import pytest


@pytest.fixture
def halo_plugins() -> list[str]:
    """The plugin that the kernel of a test has."""
    return ["halo_ledger"]
