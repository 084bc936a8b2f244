"""Commands around a real server process: started, found, shown, stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from halo_cli import init, plugins, run, sessions, status, stop, up
from halo_cli.launch import end, wait
from halo_cli.start import ServerFailed, start, start_supervised
from halo_cli.terminal import model_line
from halo_kernel import HaloError, NotFound, default_home
from halo_lib_client import find_server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test's own, and an empty folder to be in."""
    for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return default_home(os.environ)


@pytest.fixture
def server(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server of this process."""
    process, _ = start(["--port", "0"], home=home)
    yield process
    if process.poll() is None:
        process.kill()
        process.wait()


def test_a_server_is_started_and_ended(home: Path) -> None:
    """`start` returns when the server answers; `end` ends it cleanly."""
    process, client = start(["--port", "0"], home=home)
    assert client.get("/api/server")["pid"] == process.pid
    assert end(process) == 0
    assert find_server(home) is None


@pytest.mark.parametrize("begin", [start, start_supervised])
def test_a_server_that_does_not_start_says_why(
    home: Path, begin: Callable[..., object], capfd: pytest.CaptureFixture[str]
) -> None:
    """Its own sentence reaches the person: through the error when it is in the background, else on stderr."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailed) as failed:
            begin(["--port", str(port)], home=home)
    said = failed.value.message if begin is start_supervised else capfd.readouterr().err
    assert f"Port {port} on 127.0.0.1 is taken" in said
    assert "Traceback" not in said


def test_a_server_that_a_signal_killed_has_a_shell_s_exit_code(server: subprocess.Popen[bytes]) -> None:
    """A killed server is told as a shell tells it: 128 and the signal's number."""
    server.send_signal(signal.SIGKILL)
    assert wait(server) == 137


def test_status_and_stop_follow_the_server(
    home: Path, server: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` names address and process, `stop` returns when it has ended, and then both say that none runs."""
    assert status.command([]) == 0
    told = capsys.readouterr().out
    assert f"pid {server.pid}" in told and "http://127.0.0.1:" in told
    assert stop.command([]) == 0
    assert capsys.readouterr().out == "Stopped.\n"
    assert server.wait(5) == 0
    assert (status.command([]), stop.command([])) == (1, 1)
    assert capsys.readouterr().err.count("No server of") == 2


def test_a_deaf_server_is_killed_by_force(
    home: Path, server: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs is left alone, and killed with `--force`; neither waits for its answer."""
    server.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(stop, "PATIENCE", 0.3)
    monkeypatch.setattr(stop, "_FORCED_PATIENCE", 0.3)
    assert stop.command([]) == 1
    assert "`halo stop --force` kills it" in capsys.readouterr().err
    assert stop.command(["--force"]) == 0
    assert capsys.readouterr().out == "Killed.\n"
    assert server.wait(5) == -signal.SIGKILL


def test_a_server_that_refuses_to_be_asked_is_told_by_a_signal(
    home: Path, server: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that does not take our credentials is stopped all the same, and cleanly."""
    presence = home / "secrets" / "server.json"
    presence.write_text(json.dumps({**json.loads(presence.read_text()), "token": "wrong"}))
    assert stop.command([]) == 0
    assert capsys.readouterr().out == "Stopped.\n"
    assert server.wait(5) == 0


def test_a_workspace_is_made_and_its_sessions_are_listed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`init` makes the folder and says where its files are; `sessions` of an empty workspace says that it is empty."""
    assert init.command([str(tmp_path / "new" / "folder")]) == 0
    assert (tmp_path / "new" / "folder" / ".halo" / "halo.db").exists()
    assert str(tmp_path / "new" / "folder") in capsys.readouterr().out
    assert sessions.command(["-w", str(tmp_path / "new" / "folder")]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "No sessions found.\n")


def test_a_command_s_own_kernel_has_the_plugins_that_are_wanted(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """HALO_PLUGINS holds for a kernel that a command brings up: here for one without any agent."""
    monkeypatch.setenv("HALO_PLUGINS", "api")
    with (tmp_path / "empty").open("w+") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(NotFound) as failed:
            run.command(["hello"])
    assert "no agent" in failed.value.message and "halo-workspace" in failed.value.advice


def test_up_ends_the_server_that_is_of_no_use(home: Path, tmp_path: Path) -> None:
    """When the workspace cannot be opened, the server that was started for it does not stay, detached or not."""
    for words in ([], ["-d"]):
        with pytest.raises(HaloError, match="does not exist"):
            up.command([*words, "--no-browser", "-p", "0", "-w", str(tmp_path / "missing")])
        assert find_server(home) is None


def offer(model: str, *, real: bool = True, reason: str = "") -> dict[str, object]:
    return {"model": model, "is_model": real, "reason": reason}


def test_the_model_is_named_with_the_reason_and_rules_are_no_model() -> None:
    """A model is called one; rules never are, and what the first model in line lacks is said."""
    real, rules = offer("x/y", reason="no key: set X_KEY"), offer("offline/rules", real=False)
    assert model_line({"models": [real], "chosen": "x/y", "reason": "uses X_KEY"}) == "Model: x/y (uses X_KEY)"
    line = model_line({"models": [rules, real], "chosen": "offline/rules", "reason": "none else"})
    assert line == "No model is running: built-in rules answer. First in line is x/y (no key: set X_KEY)."
    assert model_line({"models": [rules], "chosen": "offline/rules", "reason": ""}).endswith("rules answer.")
    assert model_line({"models": [], "chosen": None, "reason": "none"}) == "No model can answer: none"


def test_a_plugin_is_reloaded(home: Path, server: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]) -> None:
    """`halo plugins reload` swaps a plugin of the running server, and names what is none or needs a restart."""
    assert plugins.command(["reload", "api"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in told] == ["api"] and "is in use" in told[0]
    assert find_server(home).get("/api/openapi.json")["openapi"], "what it answers is there as before"  # type: ignore[union-attr]
    with pytest.raises(NotFound, match="no loaded plugin apj, did you mean api"):
        plugins.command(["reload", "apj"])
    with pytest.raises(HaloError, match="cannot be changed while the server runs"):
        plugins.command(["reload", "sqlite"])


def test_without_a_server_nothing_is_reloaded(home: Path) -> None:
    """What is installed counts from a server's start on; without one there is nothing to swap."""
    with pytest.raises(NotFound, match="no server of this home runs"):
        plugins.command(["reload", "api"])


def test_the_status_without_the_api_names_what_is_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server whose plugin `api` is away is shown all the same; which model answers is not known, and why is said."""
    monkeypatch.setenv("HALO_PLUGINS", "cli")
    process, _ = start(["--port", "0"], home=home)
    try:
        assert status.command([]) == 0
    finally:
        assert end(process) == 0
    said = capsys.readouterr().out
    assert f"pid {process.pid}" in said
    assert "Which model answers is not known: this needs the plugin api, which is disabled" in said
