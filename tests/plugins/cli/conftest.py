"""Commands over a kernel of their own process, with a scripted model; and over real server processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import halo_api
from halo_kernel.testing import NoteTool, ScriptedModel, SimplePlugin
from halo_lib_client import Client, connect


@pytest.fixture
def model() -> ScriptedModel:
    """The model of `client`: it repeats what is said, unless a test says otherwise."""
    return ScriptedModel()


@pytest.fixture
def client(tmp_path: Path, model: ScriptedModel) -> Iterator[Client]:
    """A client of a kernel in this process that has one model, one tool and the API."""
    extra = {"test": SimplePlugin(model, [NoteTool()]), "api": halo_api}
    with connect(tmp_path / "kernel", local=True, extra=extra, discover=False) as client:
        yield client
