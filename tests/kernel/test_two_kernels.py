"""Two kernels on one workspace: each accepts, the one that holds the tree answers, and its end hands the tree over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from halo_kernel import OPERATOR, Incoming, Kernel, Session, TurnEnded
from halo_kernel.testing import Answer, ScriptedModel, running_kernel


async def the_session(kernel: Kernel, folder: Path) -> Session:
    workspace = await kernel.host.workspaces.open(folder)
    return await kernel.host.sessions.open("shared", workspace=workspace.id, principal=OPERATOR, create=True)


async def ends(session: Session) -> int:
    return len([u async for u in session.events() if u.event and isinstance(u.event.body, TurnEnded)])


async def test_the_holder_answers_what_another_process_accepted(tmp_path: Path) -> None:
    """S36: a message accepted by a kernel that does not hold the tree is answered by the one that does, once."""
    (tmp_path / "w").mkdir()
    one, two = ScriptedModel(responder=lambda request: Answer("one")), ScriptedModel(responder=lambda r: Answer("two"))
    async with running_kernel(tmp_path / "a", model=one) as first, running_kernel(tmp_path / "b", model=two) as second:
        mine = await the_session(first, tmp_path / "w")
        assert (await mine.prompt(Incoming(text="hello")).result).text == "one"
        other = await the_session(second, tmp_path / "w")
        live = other.events(live=True)
        await other.submit(Incoming(text="from the other side"))
        async with asyncio.timeout(10):
            turns = 0
            async for update in live:
                turns += update.event is not None and isinstance(update.event.body, TurnEnded)
                if turns == 2:
                    break
        await live.aclose()
        assert (await other.prompt(Incoming(text="and again")).result).text == "one"
        assert await other.output() == "one" and two.requests == []


async def test_a_clean_end_hands_the_tree_over(tmp_path: Path) -> None:
    """What was accepted while another kernel held the tree is answered here as soon as that one has ended."""
    (tmp_path / "w").mkdir()
    two = ScriptedModel(responder=lambda request: Answer("two"))
    async with running_kernel(tmp_path / "b", model=two) as second:
        async with running_kernel(tmp_path / "a") as first:
            mine, other = await the_session(first, tmp_path / "w"), await the_session(second, tmp_path / "w")
            await mine.prompt(Incoming(text="hello")).result
        assert (await other.prompt(Incoming(text="now you")).result).text == "two"
        assert await ends(other) == 2
