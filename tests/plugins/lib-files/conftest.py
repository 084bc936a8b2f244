"""Room for trees of files that are made and thrown away by the hundred."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

_MEMORY = "/dev/shm"


@pytest.fixture(scope="session")
def scratch() -> Callable[[], AbstractContextManager[str]]:
    """Make a folder for the length of a block, in memory where the system has such a place: disks are slow at this."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    return lambda: tempfile.TemporaryDirectory(dir=place)
