"""The wall clock steps back an hour and forward a day between turns, and nothing that was promised changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from halo_kernel import OPERATOR, Incoming, InputAdded, Kernel, LeaseHeld, Session
from halo_kernel.testing import Answer, ScriptedModel, VirtualClock, a_session, journal, running_kernel

HOUR, DAY = 3600.0, 86_400.0
STEPS = [-HOUR, DAY, -DAY, HOUR, -HOUR, 2 * DAY]


class WallClock(VirtualClock):
    """A clock whose wall time can be set, which the monotonic one does not follow."""

    offset = 0.0

    def step(self, seconds: float) -> None:
        """Set the wall clock, as an administrator or a time server does."""
        self.offset += seconds

    def now(self) -> int:
        return super().now() + int(self.offset * 1000)


def model() -> ScriptedModel:
    return ScriptedModel(responder=lambda request: Answer("yes"))


async def texts(session: Session) -> list[str]:
    events = await journal(session)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.body.text for event in events if isinstance(event.body, InputAdded)]


@pytest.mark.parametrize("restart", [False, True], ids=["a server that runs on", "a start after each step"])
async def test_order_and_receipts(tmp_path: Path, restart: bool) -> None:
    """Messages keep their order, each is answered, and a key is known again, however the wall clock steps."""
    clock, said = WallClock(), ["first"]
    async with running_kernel(tmp_path / "home", model=model(), clock=clock) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        name, folder = session.info.id, session.info.workspace
        receipt = await session.submit(Incoming(text="first", key="first"))
        await session.prompt(Incoming(text="second", key="second")).result
        said.append("second")
        if not restart:
            for number, step in enumerate(STEPS):
                clock.step(step)
                await one_more(session, number, said, receipt.row)
            return
    for number, step in enumerate(STEPS):
        clock.step(step)
        async with running_kernel(tmp_path / "home", model=model(), clock=clock) as kernel:
            again = await kernel.host.sessions.open(name, workspace=folder, principal=OPERATOR)
            await one_more(again, number, said, receipt.row)


async def one_more(session: Session, number: int, said: list[str], row: int) -> None:
    """Have one more message answered, and send the first one again."""
    result = await session.prompt(Incoming(text=f"after step {number}", key=f"key {number}")).result
    assert result.outcome == "succeeded"
    said.append(f"after step {number}")
    assert await texts(session) == said
    assert (await session.submit(Incoming(text="first", key="first"))).row == row, "the first receipt again"
    assert await texts(session) == said


async def test_leases(tmp_path: Path) -> None:
    """A lease is a process's for as long as it lives: a day forward lets nobody else in, and it goes on writing."""
    clock = WallClock()
    async with running_kernel(tmp_path / "home", model=model(), clock=clock) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="first")).result
        for step in STEPS:
            clock.step(step)
            async with running_kernel(tmp_path / "home", model=model(), clock=clock, recover=False) as other:
                assert not await can_write(other, session)
            assert (await session.prompt(Incoming(text="more")).result).outcome == "succeeded"


async def can_write(other: Kernel, session: Session) -> bool:
    """Tell whether another kernel of this home may run the session's turns."""
    info = session.info
    database = (await other.workspaces.seat(info.workspace)).database
    try:
        await database.lease(f"tree:{info.root}")
    except LeaseHeld:
        return False
    return True
