"""The plugin in a running kernel, with a scripted model."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import OPERATOR, Access, Event, Incoming, Kernel, Mode, Session, ToolFinished
from halo_kernel.testing import Answer, Calls, ScriptedModel, running_kernel, until
from halo_tools import jail

plugin = importlib.import_module("halo_tools")
SLACK = 1.0  # of a machine that is busy with other tests


async def session_in(kernel: Kernel, folder: Path, access: Access = "full") -> Session:
    folder.mkdir(exist_ok=True)
    workspace = await kernel.host.workspaces.open(folder)
    return await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR, access=access)


async def results(session: Session) -> dict[str, tuple[str, str]]:
    """Return outcome and text of every tool call by the tool's name."""
    events: list[Event] = [update.event async for update in session.events() if update.event]
    bodies = [event.body for event in events if isinstance(event.body, ToolFinished)]
    return {body.name: (body.outcome, body.text) for body in bodies}


def runs(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def test_a_turn_uses_every_tool(tmp_path: Path) -> None:
    """One batch of calls works on the workspace in order, and each answer is in the journal."""
    calls = Calls(
        [
            ("file_write", {"path": "a.txt", "content": "one\n"}),
            ("file_edit", {"path": "a.txt", "old_string": "one", "new_string": "two"}),
            ("file_read", {"path": "a.txt"}),
            ("file_list", {}),
            ("glob", {"pattern": "*.txt"}),
            ("grep", {"pattern": "tw."}),
            ("shell_exec", {"command": "cat a.txt"}),
        ]
    )
    async with running_kernel(
        tmp_path / "home", model=ScriptedModel([calls, Answer("done")]), extra={"tools": plugin}
    ) as kernel:
        session = await session_in(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "done"
        assert await results(session) == {
            "file_write": ("ok", "File written: a.txt"),
            "file_edit": ("ok", "File edited: a.txt"),
            "file_read": ("ok", "     1\ttwo"),
            "file_list": ("ok", "📁 .halo\n📄 a.txt"),
            "glob": ("ok", "a.txt"),
            "grep": ("ok", "a.txt:1:two"),
            "shell_exec": ("ok", "two"),
        }


async def test_failures_are_results(tmp_path: Path) -> None:
    """What a tool refuses is an error result with its sentence, and the turn goes on."""
    calls = Calls(
        [
            ("file_read", {"path": "missing"}),
            ("file_write", {"path": "x"}),
            ("grep", {"pattern": "("}),
            ("shell_exec", {"command": "exit 3"}),
        ]
    )
    async with running_kernel(
        tmp_path / "home", model=ScriptedModel([calls, Answer("done")]), extra={"tools": plugin}
    ) as kernel:
        session = await session_in(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "done"
        found = await results(session)
        assert {outcome for outcome, _ in found.values()} == {"error"}
        assert found["file_read"][1] == "Error: missing does not exist."
        assert found["file_write"][1] == "Error: the argument content is required."
        assert found["grep"][1].startswith("Error: pattern is no valid regular expression")
        assert found["shell_exec"][1] == "Error: Command failed: exit 3\nExit code: 3"


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("workspace", {"file_read", "file_write", "file_edit", "file_list", "glob", "grep", "shell_exec"}),
        ("readonly", {"file_read", "file_list", "glob", "grep"}),
    ],
)
@pytest.mark.needs("bwrap")
async def test_a_level_has_its_tools(tmp_path: Path, access: Any, expected: set[str]) -> None:
    """A model is offered the tools of its session's level only."""
    model = ScriptedModel([Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, extra={"tools": plugin}) as kernel:
        session = await session_in(kernel, tmp_path / "w", access)
        await session.prompt(Incoming(text="go")).result
        assert {tool.name for tool in model.requests[0].tools} == expected


@pytest.mark.parametrize("works", [True, False])
async def test_an_open_workspace_says_whether_there_is_a_sandbox(
    tmp_path: Path, works: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says it for every workspace, with the reason where there is none, and opening does not wait for that."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\nsleep 0.5\n" + ("" if works else "echo no namespaces >&2; exit 1\n"))
    program.chmod(0o755)
    monkeypatch.setattr(jail, "sandbox", jail.Bubblewrap(str(program)))
    caplog.set_level(logging.DEBUG)
    said = "shell below full access runs in bubblewrap" if works else "no shell below full access: there is no sandbox"
    async with running_kernel(tmp_path / "home", extra={"tools": plugin}) as kernel:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            await kernel.host.workspaces.open(tmp_path / name)
        assert said not in caplog.text
        lines = list[str]()
        for _ in range(500):
            lines = [str(record.msg) for record in caplog.records if said in str(record.msg)]
            if len(lines) == 2:
                break
            await asyncio.sleep(0.01)
    assert [sum(str(tmp_path / name) in line for line in lines) for name in ("one", "two")] == [1, 1]
    assert works or all("no namespaces" in line for line in lines)


async def test_settings_reach_the_tools(tmp_path: Path) -> None:
    """A setting of the section `tools` is what the tools go by."""
    model = ScriptedModel([Calls([("shell_exec", {"command": "sleep 60"})]), Answer("done")])
    env = {"HALO_TOOLS_SHELL_TIMEOUT": "0.3"}
    async with running_kernel(tmp_path / "home", model=model, extra={"tools": plugin}, env=env) as kernel:
        session = await session_in(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="go")).result
        assert (await results(session))["shell_exec"][1].startswith("Error: Command timed out after 300ms")


async def test_an_interrupted_turn_ends_its_command(tmp_path: Path) -> None:
    """Interrupting a turn ends the command it runs, with all that it started, and the turn is over."""
    command = "sleep 300 & echo $! > pid; wait"
    model = ScriptedModel([Calls([("shell_exec", {"command": command})])])
    async with running_kernel(tmp_path / "home", model=model, extra={"tools": plugin}) as kernel:
        session = await session_in(kernel, tmp_path / "w")
        prompt = session.prompt(Incoming(text="go"))
        pid = tmp_path / "w" / "pid"
        for _ in range(500):
            if pid.exists() and pid.read_text().strip():
                break
            await asyncio.sleep(0.01)
        assert session.interrupt()
        assert (await prompt.result).outcome == "cancelled"
        assert not runs(pid.read_text().strip())


@pytest.mark.parametrize("mode", ["interrupt_soft", "interrupt_hard"])
async def test_a_newer_message_while_a_command_runs(tmp_path: Path, mode: Mode) -> None:
    """19: a soft interrupt lets the running command finish, a hard one ends all its processes within 2.2 s."""
    command = (
        "sleep 300 & echo $! > pids; (trap '' TERM; sleep 300 & echo $! >> pids; wait) & sleep 1; kill %1; echo end"
    )
    model = ScriptedModel([Calls([("shell_exec", {"command": command})])])
    async with running_kernel(tmp_path / "home", model=model, extra={"tools": plugin}) as kernel:
        session = await session_in(kernel, tmp_path / "w")
        first, file = session.prompt(Incoming(text="go")), tmp_path / "w" / "pids"
        await until(lambda: file.exists() and len(file.read_text().split()) == 2)
        pids, began = file.read_text().split(), asyncio.get_running_loop().time()
        second = session.prompt(Incoming(text="newer", mode=mode))
        await second.accepted
        if mode == "interrupt_hard":
            await until(lambda: not any(map(runs, pids)))
            assert asyncio.get_running_loop().time() - began < 2.2 + SLACK
            assert (await first.result).outcome == "interrupted"
        assert (await second.result).text == "echo: newer"
        outcome, text = (await results(session))["shell_exec"]
        assert (outcome == "ok" and text == "end") == (mode == "interrupt_soft")
    for pid in filter(runs, pids):
        os.kill(int(pid), signal.SIGKILL)


async def test_an_ended_kernel_is_forgotten(tmp_path: Path) -> None:
    """The plugin holds nothing of a kernel that has ended."""
    async with running_kernel(tmp_path / "home", extra={"tools": plugin}) as kernel:
        await session_in(kernel, tmp_path / "w")
        assert kernel.workspaces in [host.workspaces for host in plugin._hosts.values()]
    assert kernel.workspaces not in [host.workspaces for host in plugin._hosts.values()]
