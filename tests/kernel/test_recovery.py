"""After a crash: one history, nothing missing from it, and whoever waits for a reply gets one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from halo_kernel import OPERATOR, Incoming, ModelRequest, Text, Tool, hook
from halo_kernel.testing import Answer, Hang, Postbox, ScriptedModel, a_session, running_kernel, until


def texts(request: ModelRequest) -> str:
    return " ".join(b.text for message in request.messages for b in message.content if isinstance(b, Text))


class SlowOnce:
    """A plugin whose first answer about a session's tools takes its time."""

    def __init__(self) -> None:
        self.asked = 0

    @hook
    def provide_tools(self) -> list[Tool]:
        self.asked += 1
        if self.asked == 1:
            time.sleep(0.3)
        return []


async def test_messages_that_arrive_during_recovery_stay_in_the_history(tmp_path: Path) -> None:
    """A message that arrives while a crashed session is taken over is shown to every later model call."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        name = session.info.id
        await session.submit(Incoming(text="first"))
        await until(lambda: model.active)
    model, slow = ScriptedModel(), SlowOnce()
    async with running_kernel(tmp_path / "home", model=model, recover=False, extra={"slow": slow}) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace.id, principal=OPERATOR)
        recovery = asyncio.create_task(kernel.recover())
        await until(lambda: slow.asked)
        await session.prompt(Incoming(text="early")).result
        await recovery
        await session.prompt(Incoming(text="late")).result
        seen = texts(model.requests[-1])
        assert all(word in seen for word in ("first", "early", "late", "restarted")), seen
        assert slow.asked == 1, "the history is loaded once"


async def test_who_asked_a_child_is_told_that_its_turn_was_cut(tmp_path: Path) -> None:
    """A root is asked to go on and replies then; nobody asks its child, whose routes are told once what happened."""
    model, post = ScriptedModel([Hang(), Hang()]), Postbox()
    async with running_kernel(tmp_path / "home", model=model, extra={"post": post}) as kernel:
        root = await a_session(kernel, tmp_path / "w")
        child = await root.start_child("default")
        for session, route in ((root, "post:a:root"), (child, "post:a:child")):
            await session.submit(Incoming(text="hello", route=route))
        await until(lambda: model.active == 2)
    for _ in range(2):
        model = ScriptedModel([Answer("done")])
        async with running_kernel(tmp_path / "home", model=model, extra={"post": post}) as kernel:
            await kernel.host.workspaces.open(tmp_path / "w")
            await until(lambda: len(post.arrived) >= 2)
            await asyncio.sleep(0.05)
    told = {part.target: part.text for part in post.arrived}
    assert told == {"post:a:root": "done", "post:a:child": "❌ the server stopped in the middle of this turn"}
    assert len(post.arrived) == 2
