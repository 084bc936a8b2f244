"""Commands over a kernel of their own process, with a scripted model; and over real server processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import halo_api
from halo_kernel.testing import NoteTool, ScriptedModel, SimplePlugin
from halo_lib_client import Client, connect, find_server


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


@pytest.fixture
def channel_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a server process with channels (`channel_process.py`), which the commands find too."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "targets").touch()
    (home / "bots").write_text("{}")
    monkeypatch.setenv("HALO_HOME", str(home))
    monkeypatch.chdir(work)
    script = Path(__file__).parent / "channel_process.py"
    with subprocess.Popen([sys.executable, script, home], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "ready on" in process.stdout.readline()
        client = find_server(home)
        assert client is not None
        yield client
        process.terminate()
