"""How large a tree of sessions may get, and in which order `start_session` looks."""

from __future__ import annotations

from halo_kernel import Kernel, Session, SessionSettings
from halo_kernel.testing import ToolContract

from .conftest import Desk


async def deep(session: Session, depth: int) -> Session:
    """Return a session so deep below a root, which counts as 1."""
    for _ in range(depth - 1):
        session = await session.start_child("lead")
    return session


async def test_the_depth_of_a_tree(desk: Desk) -> None:
    """8 `start_session` from depth 16 fails; from depth 15 succeeds."""
    low = await deep(desk.session, 15)
    await desk.start("do: say hi", by=low)
    lowest = await low.start_child("lead")
    refused = await desk.ask("start_session", lowest, agent_id="worker", message="do: say hi")
    assert refused["code"] == 1 and refused["error"].startswith("Maximum nesting depth (16) reached. ")
    assert await lowest.children() == []


async def test_the_order_of_the_checks(desk: Desk) -> None:
    """What is wrong is told in one order: what lacks, no such agent, not of the team, the depth, the folder."""
    lowest = await deep(desk.session, 16)
    wrong = {"agent_id": "noone", "message": "hi", "working_dir": ".."}
    done = await desk.call("start_session", lowest, **{**wrong, "message": ""})
    assert done.text == "Error: agent_id and message are required"
    for agent, start in (("noone", 'agent "noone" not found.'), ("stranger", 'agent "stranger" is not in your team.')):
        assert (await desk.ask("start_session", lowest, **{**wrong, "agent_id": agent}))["error"].startswith(start)
    named = {**wrong, "agent_id": "worker"}
    assert (await desk.ask("start_session", lowest, **named))["error"].startswith("Maximum nesting depth (16)")
    assert (await desk.ask("start_session", **named))["error"].startswith("working_dir .. is outside the workspace")
    assert await lowest.children() == [] and len(await desk.session.children()) == 1


async def test_how_many_there_may_be(desk: Desk) -> None:
    """A session may have so many children that are not archived; the refusal says what to do, and nothing is made."""
    assert isinstance(desk.halo.kernel, Kernel)
    desk.halo.kernel.workspaces.seats[desk.session.info.workspace].limits = SessionSettings(max_children=1)
    first = await desk.start("do: say hi")
    refused = await desk.ask("start_session", agent_id="worker", message="do: say hi")
    assert refused["code"] == 1 and "archive one first" in refused["error"]
    await desk.ask("archive_session", session_id=first.info.id)
    await desk.start("do: say hi")
    assert len(await desk.session.children()) == 2


class TestContinueTask(ToolContract):
    """The contract of every tool, for the one that every agent has."""

    tool_name = "continue_task"
