"""Reports under `kill -9`: a child's work reaches its parent once, whatever commit a process dies at."""

from __future__ import annotations

import asyncio

import pytest

from halo_kernel import Event, Incoming, InputAdded, ModelRequest, Principal, Session, TurnEnded
from halo_kernel.testing import Answer, CrashPoints, Workbench, journal

PARENT = Principal(name="session:talk", kind="agent")
ASKED = Incoming(text="work", principal=PARENT, key="work")


def answer(request: ModelRequest) -> Answer:
    return Answer("read" if "(from: session sub_" in str(request.messages[-1]) else "made")


async def open_both(halo: Workbench) -> tuple[Session, Session]:
    """Return the parent and its child, made unless it is there."""
    halo.model.responder = answer
    kernel = await halo.start()
    parent = await halo.session("talk")
    for info in await parent.children():
        return parent, await kernel.host.sessions.open(
            info.id, workspace=parent.info.workspace, principal=Principal(name=info.principal, kind=info.principal_kind)
        )
    return parent, await parent.start_child("default")


async def prepare(halo: Workbench) -> None:
    await open_both(halo)


def reports(events: list[Event]) -> list[str]:
    return [e.body.text for e in events if isinstance(e.body, InputAdded) and e.body.cause == "report"]


async def ask(halo: Workbench) -> None:
    """Ask the child, and wait until its parent has answered the report."""
    parent, child = await open_both(halo)
    await child.submit(ASKED)
    await told(parent, child)


async def told(parent: Session, child: Session) -> tuple[list[Event], list[Event]]:
    """Return both journals when the report was read and nothing goes on."""
    before: list[Event] = []
    for _ in range(1000):
        await asyncio.sleep(0.01)
        events = await journal(parent)
        idle = {parent.info.state, child.info.state} == {"idle"}
        if idle and reports(events) and events == before and isinstance(events[-1].body, TurnEnded):
            return events, await journal(child)
        before = events
    raise AssertionError(f"the parent was told {reports(before)}")


async def count(halo: Workbench) -> None:
    """The sender repeats itself, since it may know nothing; then there is one report of the work, read once."""
    parent, child = await open_both(halo)
    await child.submit(ASKED)
    mine, its = await told(parent, child)
    inputs = [event.body.key for event in its if isinstance(event.body, InputAdded)]
    ends = [event.body.outcome for event in its if isinstance(event.body, TurnEnded)]
    assert inputs.count("work") == 1
    made, cut = reports(mine).count("made"), sum("SUB-AGENT ABORTED" in text for text in reports(mine))
    assert (made, cut) == (ends.count("succeeded"), ends.count("interrupted")) and made + cut == 1


@pytest.mark.timeout(300)
def test_a_kill_anywhere_in_a_childs_work(crash_points: CrashPoints) -> None:
    """Killed at any commit from the request to the report that was read: the parent is told once how it ended."""
    died = " ".join(map(str, crash_points(ask, count, prepare=prepare)))
    for commit in ("Session._accept", "Desk.commit", "lease tree:"):
        assert commit in died
