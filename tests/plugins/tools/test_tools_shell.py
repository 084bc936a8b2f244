"""`shell_exec` at full access, and what is the same at every level."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import BadInput, Forbidden
from halo_tools.environment import full_environment
from halo_tools.jail import Bubblewrap
from halo_tools.shell import CommandFailed, cut_middle

TREE = "sleep 300 & echo $! >> pids; (trap '' TERM; sleep 300 >/dev/null 2>&1 & echo $! >> pids; wait) & wait"


async def started(desk: Any, command: str, access: Any = "full") -> tuple[asyncio.Task[str], list[int]]:
    """Start a command that writes the numbers of its two children, and return both."""
    work = asyncio.create_task(desk.call("shell_exec", access, command=command))
    for _ in range(500):
        file = desk.folder / "pids"
        if file.exists() and len(file.read_text().split()) == 2:
            return work, [int(number) for number in file.read_text().split()]
        await asyncio.sleep(0.01)
    raise AssertionError("the command did not start")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_what_a_command_prints(desk: Any) -> None:
    """stdout comes back, then stderr by name; a silent command says so."""
    assert await desk.call("shell_exec", command="echo out; echo err >&2") == "out\nSTDERR: err"
    assert await desk.call("shell_exec", command="true") == "(no output)"
    assert await desk.call("shell_exec", command="pwd") == str(desk.folder)
    assert await desk.call("shell_exec", command=r"printf '\377é'") == "�é"


async def test_a_failure_tells_both_streams(desk: Any) -> None:
    """A command that fails is an error with the command, its code and all that it printed."""
    with pytest.raises(CommandFailed) as raised:
        await desk.call("shell_exec", command="echo out; echo err >&2; exit 7")
    assert str(raised.value) == "Command failed: echo out; echo err >&2; exit 7\nExit code: 7\nout\nSTDERR: err"


async def test_long_output_keeps_both_ends(desk: Any) -> None:
    """Of long output the middle is left out, so that the first lines and the error at the end are seen."""
    shown = await desk.call("shell_exec", command="seq 100000; echo the end")
    assert shown.startswith("1\n2\n") and shown.endswith("100000\nthe end")
    assert "characters left out" in shown
    assert len(shown) < desk.settings.result_chars
    with pytest.raises(CommandFailed) as raised:
        await desk.call("shell_exec", command="seq 100000; seq 100000 >&2; echo last words >&2; exit 1")
    assert len(str(raised.value)) < desk.settings.result_chars
    assert str(raised.value).endswith("last words")


def test_cutting_is_exact() -> None:
    """A cut text says how many characters are missing."""
    assert cut_middle("abcdef", 4) == "ab\n[... 2 characters left out ...]\nef"
    assert cut_middle("abcd", 4) == "abcd"


async def test_a_command_has_its_time(desk: Any) -> None:
    """After the timeout the error tells the time and what was printed, and no process is left."""
    desk.set(shell_timeout=0.6)
    work, children = await started(desk, f"echo begun; {TREE}")
    with pytest.raises(CommandFailed, match=r"^Command timed out after 600ms: echo begun;.*\nbegun"):
        await work
    assert not any(map(alive, children))


async def test_a_flood_is_stopped(desk: Any) -> None:
    """Output past the limit ends the command, at once and whatever it does."""
    desk.set(shell_output_bytes=10_000)
    began = time.monotonic()
    with pytest.raises(CommandFailed, match="its output passed 10000 bytes"):
        await desk.call("shell_exec", command="yes")
    assert time.monotonic() - began < 5


class Cancel:
    def __init__(self) -> None:
        self.event = asyncio.Event()

    @property
    def requested(self) -> bool:
        return self.event.is_set()

    async def wait(self) -> None:
        await self.event.wait()


async def test_a_soft_stop(desk: Any) -> None:
    """A call that is asked to stop ends its command with all children and tells what was printed."""
    desk.cancel = Cancel()
    work, children = await started(desk, f"echo begun; {TREE}")
    desk.cancel.event.set()
    with pytest.raises(CommandFailed, match=r"^Command stopped on request: .*\nbegun"):
        await work
    assert not any(map(alive, children))


async def test_a_cancelled_call(desk: Any) -> None:
    """A cancelled call has ended its command with all children before it ends itself."""
    work, children = await started(desk, TREE)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not any(map(alive, children))


async def test_something_left_running(desk: Any) -> None:
    """At full access a command may leave something running, as its description says."""
    shown = await desk.call("shell_exec", command="sleep 300 > log 2>&1 & echo $!")
    assert alive(int(shown))
    os.kill(int(shown), 9)


async def test_progress_is_told(desk: Any) -> None:
    """The last line of a command that takes long is shown while it runs, not more than once a second."""
    await desk.call("shell_exec", command="for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; sleep 0.1; done")
    assert 1 <= len(desk.told) <= 2
    assert all(line.startswith("line ") for line in desk.told)


async def test_no_secret_reaches_a_command(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords, tokens and keys of Halo and of model providers are not in a command's environment; HALO_HOME is."""
    names = (
        "HALO_PASSWORD",
        "HALO_JWT_SECRET",
        "HALO_NODE_TOKEN",
        "OPENAI_API_KEY",
        "OPENAI_API_KEY_FILE",
        "AWS_BEARER_TOKEN_BEDROCK",
    )
    for name in names:
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("MINE", "kept")
    shown = await desk.call("shell_exec", command="env")
    assert "canary" not in shown
    assert "MINE=kept" in shown and "HALO_HOME=" in shown
    assert full_environment({"HALO_HOME": "h", "HALO_X": "x", "A_API_KEY": "k", "B": "b"}) == {
        "HALO_HOME": "h",
        "B": "b",
    }


async def test_what_cannot_be_run(desk: Any) -> None:
    """An empty command, one with a NUL and one that is too long are refused by name."""
    for command, rule in (("", "length >= 1"), ("a\0b", "NUL"), ("x" * 100_001, "length <= 100000")):
        with pytest.raises(BadInput, match=rule) as raised:
            await desk.call("shell_exec", command=command)
        assert raised.value.field == "command"


async def test_the_guard_stands_before_every_level(desk: Any) -> None:
    """What nobody means to remove is refused before anything runs."""
    desk.write("f", "x")
    with pytest.raises(
        Forbidden, match=r'^\[Sandbox\] rm blocked: "\$?.*workspace.*" resolves to .*, which is the workspace itself'
    ):
        await desk.call("shell_exec", command=f"rm -rf {desk.folder}")
    assert (desk.folder / "f").exists()


async def test_without_a_sandbox_there_is_no_shell_below_full(desk: Any) -> None:
    """Where nothing confines, the tool is absent below full access, and a lower turn of a full session is refused."""
    desk.sandbox = Bubblewrap("no-such-program")
    assert "shell_exec" not in desk.tools("workspace")
    assert "shell_exec" in desk.tools("full")
    with pytest.raises(Forbidden, match=r"bubblewrap .* is not installed"):
        await desk.call("shell_exec", "full", "workspace", command="touch f")
    with pytest.raises(Forbidden, match="readonly access runs no commands"):
        await desk.call("shell_exec", "full", "readonly", command="touch f")
    assert not (desk.folder / "f").exists()


def test_a_probe_that_fails_for_good_is_kept(tmp_path: Path) -> None:
    """A sandbox that does not work is tried once; one that could not be tried is tried again."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho x >> {tmp_path}/tries\necho 'no namespaces' >&2\nexit 1\n")
    program.chmod(0o755)
    sandbox = Bubblewrap(str(program))
    assert sandbox.probe() == sandbox.probe() == "bubblewrap does not work here: no namespaces"
    assert (tmp_path / "tries").read_text() == "x\n"
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    sandbox = Bubblewrap(str(broken))
    assert "could not be tried" in sandbox.probe()
    program.replace(broken)
    assert "no namespaces" in sandbox.probe()
