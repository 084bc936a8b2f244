"""After a crash, while messages arrive: one history, nothing missing from it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from halo_kernel import OPERATOR, Incoming, ModelRequest, Text
from halo_kernel.testing import Hang, ScriptedModel, running_kernel


def texts(request: ModelRequest) -> str:
    return " ".join(b.text for message in request.messages for b in message.content if isinstance(b, Text))


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.002, 0.004, 0.008])
async def test_messages_that_arrive_during_recovery_stay_in_the_history(tmp_path: Path, delay: float) -> None:
    """Whenever a message arrives while a crashed session is taken over, later model calls are shown it."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        name = session.info.id
        await session.submit(Incoming(text="first"))
        while not model.active:
            await asyncio.sleep(0.005)
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, recover=False) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace.id, principal=OPERATOR)
        recovery = asyncio.create_task(kernel.recover())
        await asyncio.sleep(delay)
        early = session.prompt(Incoming(text="early"))
        await early.accepted
        hard = session.prompt(Incoming(text="hard", mode="interrupt_hard"))
        await recovery
        await early.result
        await hard.result
        await session.prompt(Incoming(text="late")).result
        seen = texts(model.requests[-1])
        assert all(word in seen for word in ("first", "early", "hard", "late", "restarted")), seen
