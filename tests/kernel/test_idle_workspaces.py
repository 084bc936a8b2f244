"""Workspaces at rest: closed after five minutes without use, opened again as if nothing had been."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

from halo_kernel import OPERATOR, Incoming, Owed
from halo_kernel.testing import LineChannel, ScriptedModel, VirtualClock, a_session, running_kernel, until


def open_files(folder: Path) -> list[str]:
    """Return what this process has open below a folder."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue
    return [each for each in found if each.startswith(str(folder))]


async def test_an_idle_workspace_is_closed_and_opens_again(tmp_path: Path) -> None:
    """S31: after five minutes without use no file of a workspace is open; the next message continues its history."""
    clock, model = VirtualClock(), ScriptedModel()
    async with running_kernel(tmp_path / "home", clock=clock, model=model, extra={"line": LineChannel()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="one")).result).text == "echo: one"
        info = session.info
        await kernel.workspaces.close_idle()
        assert open_files(tmp_path / "w"), "it was used just now"
        await clock.sleep(301)
        await kernel.workspaces.close_idle()
        assert open_files(tmp_path / "w"), "somebody holds a session"
        del session
        for _ in range(100):
            await kernel.workspaces.close_idle()
            gc.collect()
            if not kernel.workspaces.seats:
                break
            await asyncio.sleep(0.05)
        assert not open_files(tmp_path / "w") and not kernel.workspaces.seats
        again = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        assert (await again.prompt(Incoming(text="two")).result).text == "echo: two"
        assert len(model.requests[-1].messages) == 3


async def test_a_workspace_with_duties_stays_open(tmp_path: Path) -> None:
    """S31: what a workspace owes keeps it open, however long nobody uses it."""
    clock = VirtualClock()
    async with running_kernel(tmp_path / "home", clock=clock) as kernel:
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        owed = Owed(key="k", dispatcher="fax", target="fax:1:2", text="later")
        await kernel.host.outbox.owe(owed, workspace=workspace.id)
        await clock.sleep(1000)
        await kernel.workspaces.close_idle()
        assert workspace.id in kernel.workspaces.seats


async def test_a_server_takes_up_what_another_process_left(tmp_path: Path) -> None:
    """A server opens a workspace once another process has a duty there, and does it when that process ends."""
    async with running_kernel(tmp_path / "home") as server:
        await server.work()
        await asyncio.sleep(0.05)
        async with running_kernel(tmp_path / "home", model=ScriptedModel()) as command:
            session = await a_session(command, tmp_path / "w")
            info = session.info
            await session.submit(Incoming(text="hello"))
        await until(lambda: info.workspace in server.workspaces.seats, 10)
        mine = await server.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        await until(lambda: mine.info.state == "idle", 10)
        assert await mine.output() == "echo: hello"
