"""Processes that die: what was set aside is settled from the journal, once, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from halo_budget import ledger
from halo_kernel import Incoming, Kernel, Session, Tx, UsageRecorded
from halo_kernel.testing import CrashPoints, Workbench, journal, until

from .conftest import CostlyModel, account, settings

ENV = settings(budgets={"all": {"tokens": 100_000}})
ASK = Incoming(text="hello", key="client:1")


async def start(halo: Workbench, *, recover: bool = True) -> Kernel:
    """Start a server whose model notes what it reported."""
    cast("CostlyModel", halo.plugins["costly"]).log = halo.home.parent / "reports"
    return await halo.start(env=ENV, recover=recover)


async def prepare(halo: Workbench) -> None:
    await start(halo)
    await halo.session("talk_1")


async def talk(halo: Workbench) -> None:
    await start(halo)
    session = await halo.session("talk_1")
    await session.prompt(ASK).result
    await until_settled(halo)


async def until_settled(halo: Workbench) -> float:
    for _ in range(500):
        found = await account(halo)
        if found["set_aside"] == 0:
            return float(found["spent"])
        await asyncio.sleep(0.01)
    raise AssertionError(f"still set aside: {found}")


async def left_open(halo: Workbench) -> Mapping[str, tuple[int, int]]:
    """Return what the wreck has set aside: amount and the journal's head, by call."""
    kernel = await start(halo, recover=False)
    database = await kernel.host.data.open("budget", "global", ledger.MIGRATIONS)

    def look(tx: Tx) -> Mapping[str, tuple[int, int]]:
        rows = tx.execute("SELECT id, amount, head FROM calls JOIN holds ON call = id")
        return {str(call): (int(amount), int(head)) for call, amount, head in rows}

    return await database.read(look)


async def costs(session: Session) -> list[int]:
    """Return the numbers of the events that say what a model call cost."""
    return [event.seq for event in await journal(session) if isinstance(event.body, UsageRecorded)]


async def compare(halo: Workbench) -> None:
    """What the model reported is in the books; a call of which nobody has a report counts as what was set aside."""
    wreck = await left_open(halo)
    before = await costs(await halo.session("talk_1"))
    await start(halo)
    session = await halo.session("talk_1")
    await session.submit(ASK)
    await until(lambda: session.info.state == "idle" and session.info.head > 4)
    spent = await until_settled(halo)
    reported = 100 * len((halo.home.parent / "reports").read_text().splitlines())
    unknown = [amount for amount, head in wreck.values() if not any(seq > head for seq in before)]
    died_after_its_report = 100 * len(unknown)
    assert reported - died_after_its_report <= spent - sum(unknown) <= reported


def test_a_process_that_dies_at_any_commit_counts_nothing_twice_and_loses_nothing(crash_points: CrashPoints) -> None:
    """Before and after every commit of a turn, of setting aside and settling too, the books are right afterwards."""
    died = crash_points(talk, compare, prepare=prepare)
    told = " ".join(map(str, died))
    assert "Books._decide" in told
    assert "Books._settle" in told


SERVER = """
import asyncio
from pathlib import Path
from typing import cast
from halo_kernel.testing import Hang, ScriptedModel, Workbench
from halo_kernel import Incoming

async def main():
    halo = Workbench(Path({folder!r}), plugins=["halo_budget"], model=ScriptedModel([Hang("so far")]))
    await halo.start(env={env!r})
    session = await halo.session("talk_2")
    session.prompt(Incoming(text="hello"))
    while not halo.model.requests:
        await asyncio.sleep(0.01)
    print("streaming", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def another(folder: Path) -> subprocess.Popen[str]:
    """Start a process on the same home in the middle of a model call."""
    code = SERVER.format(folder=str(folder), env=dict(ENV))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


async def test_what_a_living_process_has_set_aside_is_its_own(tmp_path: Path, halo: Workbench) -> None:
    """Another process of the home leaves it alone while it lives, and settles it once it was killed."""
    process = another(tmp_path)
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "streaming\n"
        await halo.start(env=ENV, recover=False)
        aside = (await account(halo))["set_aside"]
        assert aside > 0
        await halo.ask("hello", session=await halo.session("talk_3"))
        for _ in range(300):
            if (await account(halo))["spent"] == 100:
                break
            await asyncio.sleep(0.01)
        assert (await account(halo))["set_aside"] == aside
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        await halo.start(env=ENV)
        assert await until_settled(halo) >= 100 + aside
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
