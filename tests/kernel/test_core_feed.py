"""Followers and plugins' events at their edges."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    OPERATOR,
    BadInput,
    Event,
    Foreign,
    Incoming,
    Session,
    StorageUnavailable,
    TurnEnded,
)
from halo_kernel.testing import Hang, ScriptedModel, a_session, journal, running_kernel, until


async def test_a_follower_ends_with_its_database(tmp_path: Path) -> None:
    """Whoever follows while the kernel closes is told so; no task is left with an error that nobody took."""
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        seen: list[Event] = []

        async def follow() -> None:
            async for update in session.events(live=True):
                if update.event:
                    seen.append(update.event)

        tasks = [asyncio.create_task(follow()) for _ in range(3)]
        await session.prompt(Incoming(text="go")).result
        await until(lambda: len(seen) >= 3 * 8)
    _, late = await asyncio.wait(tasks, timeout=5)
    assert not late and all(isinstance(task.exception(), StorageUnavailable) for task in tasks)
    with pytest.raises(StorageUnavailable):
        await anext(session.events(live=True))
    del tasks
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []


async def test_the_inbox_is_watched_on_after_a_failed_look(tmp_path: Path) -> None:
    """A read that fails once does not end the watch for messages that other processes accept."""
    (tmp_path / "w").mkdir()
    async with running_kernel(tmp_path / "a") as first, running_kernel(tmp_path / "b") as second:
        sessions: list[Session] = []
        for kernel in (first, second):
            workspace = await kernel.host.workspaces.open(tmp_path / "w")
            sessions.append(
                await kernel.host.sessions.open("shared", workspace=workspace.id, principal=OPERATOR, create=True)
            )
        mine, other = sessions
        assert (await mine.prompt(Incoming(text="hello")).result).text == "echo: hello"
        database: Any = first.workspaces.seats[workspace.id].database
        read, failed = database.read, asyncio.Event()

        async def fails(fn: Any) -> Any:
            failed.set()
            raise StorageUnavailable("injected")

        database.read = fails
        await other.append("test.ring", {})
        await asyncio.wait_for(failed.wait(), 5)
        database.read = read
        assert (await asyncio.wait_for(other.prompt(Incoming(text="again")).result, 10)).text == "echo: again"


@pytest.mark.parametrize(
    "kind",
    ["turn.ended", "session.titled", "assistant.anything", "context.erased", "tool.x", "plain", "", ".x", "x.", "A.b"],
)
async def test_plugins_append_kinds_of_their_own_alone(tmp_path: Path, kind: str) -> None:
    """A plugin cannot write what looks like the kernel's own events."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.raises(BadInput) as caught:
            await session.append(kind, {"kind": kind, "outcome": "succeeded"})
        assert caught.value.field == "kind" and len(await journal(session)) == 1


async def test_plugins_events_reach_followers_and_keep_their_data(tmp_path: Path) -> None:
    """A plugin's event is journaled as it was given, told to followers, and leaves a running turn's order alone."""
    async with running_kernel(tmp_path / "home", model=ScriptedModel([Hang("half")])) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        follower = session.events(live=True)
        handle = session.prompt(Incoming(text="go"))
        await until(session.interrupt)
        event = await session.append("test.note", {"text": "hi", "n": [1, None]})
        await handle.result
        seen: list[Event] = []
        async for update in follower:
            if update.event:
                seen.append(update.event)
            if seen and isinstance(seen[-1].body, TurnEnded):
                break
        await follower.aclose()
        assert event in seen or event in await journal(session)
        assert [each.seq for each in seen] == list(range(1, len(seen) + 1))
        assert isinstance(event.body, Foreign) and event.body.data == {"text": "hi", "n": [1, None]}


async def test_a_long_history_is_followed_and_taken_up_again(tmp_path: Path) -> None:
    """S48: thousands of events are paged to a follower in order, and the session answers after a restart."""
    home = tmp_path / "home"
    async with running_kernel(home) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="first")).result
        for _ in range(8):
            await asyncio.gather(*(session.append("test.note", {"n": i}) for i in range(1000)))
        seen = [update async for update in session.events() if update.event]
        assert [update.event.seq for update in seen if update.event] == list(range(1, 8009))
        cursor = seen[4000].cursor
    async with running_kernel(home) as kernel:
        info = session.info
        session = await kernel.host.sessions.open(info.id, workspace=info.workspace, principal=OPERATOR)
        assert (await session.prompt(Incoming(text="second")).result).text == "echo: second"
        kinds = [event.kind for event in await journal(session)]
        assert kinds.count("context.prepared") == 1, "what did not change is not told again"
        rest = [update.event async for update in session.events(cursor) if update.event]
        assert rest[0].seq == 4002 and rest[-1].kind == "turn.ended"
