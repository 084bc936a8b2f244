"""What the commands take, and that looking at them costs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

import pytest

from halo_cli.run import _options as run_options
from halo_cli.run import _prompt
from halo_cli.start import start_supervised
from halo_cli.up import _options as up_options
from halo_cli.up import _server_options
from halo_kernel import BadInput, HaloError

COMMANDS = {
    entry.name: entry
    for entry in entry_points(group="halo.commands")
    if entry.dist is not None and entry.dist.name == "halo-cli"
}


def load(name: str) -> Callable[[Sequence[str]], int]:
    command: Callable[[Sequence[str]], int] = COMMANDS[name].load()
    return command


def test_the_commands_are_those_of_the_readme() -> None:
    """The distribution brings these commands, no more and no fewer."""
    serving = {"up", "status", "stop", "logs"}
    about = {
        "run",
        "init",
        "sessions",
        "workspaces",
        "approvals",
        "channels",
        "deliveries",
        "settings",
        "plugins",
        "doctor",
    }
    assert set(COMMANDS) == serving | about


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` ends with 0, says what the command does, and calls it by the name that people type."""
    with pytest.raises(SystemExit) as ended:
        load(name)(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: halo {name} ")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_unknown_option_is_wrong_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that does not exist ends with 2 before anything happens."""
    with pytest.raises(SystemExit) as ended:
        load(name)(["--no-such-option"])
    assert ended.value.code == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_up_passes_to_its_server_what_is_the_server_s() -> None:
    """Host, port and plugins left out go to the server; what is not given is left to the settings."""
    assert _server_options(up_options([])) == []
    options = up_options(["-p", "0", "--host", "::1", "--without", "web", "--without", "tools", "-w", "x"])
    assert _server_options(options) == ["--port", "0", "--host", "::1", "--without", "web", "--without", "tools"]
    assert up_options([]).browser and not up_options(["--no-browser"]).browser


@pytest.mark.parametrize("wrong", ["-1", "65536", "http", ""])
def test_a_port_is_a_number_that_ports_have(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A port is checked before a server is started for it."""
    with pytest.raises(SystemExit, match="2"):
        up_options([f"--port={wrong}"])
    assert "halo up: error: " in capsys.readouterr().err
    assert up_options(["--port=65535"]).port == 65535


def test_run_has_the_defaults_of_a_conversation_that_goes_on() -> None:
    """Without options: text, quiet, whatever server there is, the newest session."""
    options = run_options(["two", "words"])
    assert options.prompt == ["two", "words"]
    assert (options.format, options.verbose, options.local, options.new) == ("text", False, False, False)
    assert (options.session, options.agent, options.workspace, options.directory) == (None, None, None, None)


@pytest.mark.parametrize(
    ("words", "piped", "prompt"),
    [
        (["one", "two"], "", "one two"),
        ([], "from a pipe\n", "from a pipe"),
        (["words"], "  and a pipe \n", "words\n\nand a pipe"),
    ],
)
def test_words_and_pipe_are_one_prompt(
    words: list[str], piped: str, prompt: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is piped in stands after the words, an empty line between them."""
    (tmp_path / "pipe").write_text(piped)
    with (tmp_path / "pipe").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert _prompt(words) == prompt


@pytest.mark.parametrize("stdin", ["empty", "none"])
def test_no_prompt_is_an_error(stdin: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without words and without a pipe, or with nothing in it, the error shows how to say something."""
    (tmp_path / "pipe").write_text(" \n")
    with (tmp_path / "pipe").open() as pipe:
        monkeypatch.setattr(sys, "stdin", pipe if stdin == "empty" else None)
        with pytest.raises(BadInput, match='halo run "your question"'):
            _prompt([" "])


def test_a_pipe_that_is_no_text_is_an_error(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are not UTF-8 are said to be wrong, wherever they come from; a mark at the beginning is no text."""
    (tmp_path / "pipe").write_bytes(b"ok \xff")
    with (tmp_path / "pipe").open() as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        with pytest.raises(BadInput, match="byte 3 is wrong"):
            _prompt([])
    (tmp_path / "pipe").write_bytes(b"\xef\xbb\xbfmarked")
    with (tmp_path / "pipe").open() as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        assert _prompt([]) == "marked"
        with pytest.raises(BadInput, match="the prompt is not UTF-8 text"):
            _prompt([os.fsdecode(b"\xff")])


def test_commands_load_without_what_windows_lacks() -> None:
    """On a system without POSIX locks, terminals and signals every module loads, and there is no supervisor."""
    code = """
import os, pkgutil, signal, sys
sys.modules.update(fcntl=None, pty=None, pwd=None, resource=None, termios=None, tty=None)
for name in ("SIGCHLD", "SIGHUP", "SIGKILL", "SIGURG", "pthread_kill", "pthread_sigmask", "sigwait"):
    delattr(signal, name)
del os.fork
import halo_cli
for module in pkgutil.iter_modules(halo_cli.__path__):
    __import__(f"halo_cli.{module.name}")
from pathlib import Path
from halo_cli.supervision import clear, is_supervised
assert not is_supervised(Path("nowhere"))
clear(Path("nowhere"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_background_server_is_refused_where_there_is_none(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on a POSIX system `-d` says what to do instead, and makes nothing."""
    home = tmp_path / "home"
    with monkeypatch.context() as elsewhere, pytest.raises(HaloError, match="no servers in the background"):
        elsewhere.setattr("halo_cli.start.os.name", "nt")
        start_supervised([], home=home)
    assert not home.exists()


def test_commands_import_nothing_heavy() -> None:
    """Loading every command imports the kernel's light parts only: no server, no database, no SDK.

    The supervisor, which stays, imports nothing of the kernel before it needs it.
    """
    code = "import sys, halo_cli.supervisor; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert [name for name in out.split() if name.startswith(("halo_kernel.", "msgspec", "http"))] == []
    modules = ", ".join(entry.value.partition(":")[0] for entry in COMMANDS.values())
    code = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    heavy = {"starlette", "hypercorn", "apsw", "pluggy", "structlog", "ruamel", "aiohttp"}
    assert heavy & set(out.split()) == set()


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_an_output_without_room_is_one_sentence(words: list[str]) -> None:
    """A full disk behind the output ends a command with 1 and a sentence, without a traceback."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "halo_kernel", *words]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 1 and ended.stderr == "halo: the output cannot be used: No space left on device.\n"


@pytest.mark.parametrize(
    "words", [["plugins", "check"], ["plugins", "install"], ["settings", "set", "agent.default"], ["init"]]
)
def test_a_word_that_is_no_text_is_an_error(words: list[str], tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of the command line that is not UTF-8 is said to be so."""
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        load(words[0])([*words[1:], os.fsdecode(b"x\xff")])
