"""`crash_points`: work dies before and after each of its commits, and whoever looks at the wreck is told where."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import Database, Incoming, InputAdded, Migration, Session, TurnEnded, Tx
from halo_kernel.testing import CrashPoint, CrashPoints, Workbench, journal, until

pytestmark = pytest.mark.thorough

Work = Callable[[Workbench], Coroutine[Any, Any, None]]
KEY = "client:1"


ASK = Incoming(text="how many?", key=KEY)
INTENTS = [Migration(version=1, sql="CREATE TABLE intents(key TEXT PRIMARY KEY, done INTEGER NOT NULL DEFAULT 0);")]


async def make_session(halo: Workbench) -> None:
    await halo.session("talk_1")


async def succeeded(session: Session) -> None:
    """Return once a turn has succeeded and the session rests."""
    async with asyncio.timeout(4), aclosing(session.events(live=True)) as updates:
        async for update in updates:
            if update.event and isinstance(update.event.body, TurnEnded) and update.event.body.outcome == "succeeded":
                break
    await until(lambda: session.info.state == "idle")


async def assert_once(session: Session, key: str) -> None:
    """One row in the journal has this key, and one turn answered."""
    await succeeded(session)
    bodies = [event.body for event in await journal(session)]
    inputs = [body for body in bodies if isinstance(body, InputAdded) and body.key == key]
    answers = [body for body in bodies if isinstance(body, TurnEnded) and body.outcome == "succeeded"]
    assert len(inputs) == 1, f"{key} is in the journal {len(inputs)} times"
    assert len(answers) == 1, f"{key} was answered {len(answers)} times"


# the inbox


async def send(halo: Workbench) -> None:
    session = await halo.session("talk_1")
    assert (await session.prompt(ASK).result).text == "echo: how many?"


async def send_again(halo: Workbench) -> None:
    """Repeat what may have been accepted, and look at what there is of it."""
    session = await halo.session("talk_1")
    first = await session.submit(ASK)
    await assert_once(session, KEY)
    assert await session.submit(ASK) == first


def test_one_message_has_one_row_and_one_answer(crash_points: CrashPoints) -> None:
    """A message whose sender dies at any point and repeats it is there once and is answered once."""
    died = crash_points(send, send_again, prepare=make_session)
    told = " ".join(map(str, died))
    assert {point.side for point in died} == {"before", "after"}
    assert [point.number for point in died] == sorted(point.number for point in died)
    for commit in ("kernel: open", "halo: open", "lease tree:talk_1", "Session._accept", "Desk.commit"):
        assert f"{commit}" in told


# intent, effect, mark


async def intents(halo: Workbench) -> Database:
    kernel = halo.kernel or await halo.start()
    return await kernel.host.data.open("errands", "global", INTENTS)


def note(tx: Tx) -> None:
    tx.execute("INSERT INTO intents(key) VALUES ('errand:1')")


def mark(tx: Tx) -> None:
    tx.execute("UPDATE intents SET done = 1 WHERE key = 'errand:1'")


def open_errands(tx: Tx) -> list[str]:
    return [str(key) for (key,) in tx.execute("SELECT key FROM intents WHERE done = 0")]


async def run_errand(halo: Workbench, key: str) -> None:
    await (await halo.session("talk_1")).submit(Incoming(text="run", key=key))


async def careful(halo: Workbench) -> None:
    database = await intents(halo)
    await database.write(note)
    await run_errand(halo, "errand:1")
    await database.write(mark)


async def hasty(halo: Workbench) -> None:
    database = await intents(halo)
    await database.write(note)
    await database.write(mark)
    await run_errand(halo, "errand:1")


async def forgetful(halo: Workbench) -> None:
    database = await intents(halo)
    await database.write(note)
    session = await halo.session("talk_1")
    await session.submit(Incoming(text="run"))  # without a key nobody knows it again
    await database.write(mark)


async def take_up_errands(halo: Workbench) -> None:
    """Do what a start does: repeat every intent that is not marked. Then the errand was run once, or never was one."""
    database = await intents(halo)
    for key in await database.read(open_errands):
        await run_errand(halo, key)
        await database.write(mark)
    if await database.read(lambda tx: tx.one("SELECT 1 FROM intents")):
        session = await halo.session("talk_1")
        await succeeded(session)
        inputs = [event for event in await journal(session) if isinstance(event.body, InputAdded)]
        assert [event.body.text for event in inputs if event.body.cause == "message"] == ["run"]


def test_intent_effect_and_mark_survive_every_crash(tmp_path: Path) -> None:
    """Between any two of the three a crash costs nothing and repeats nothing.

    The turn commits beside the mark, in another order each time: where one was passed over, the work is done again.
    """
    wanted = {(side, at) for side in ("before", "after") for at in ("errands: note", "_accept", "errands: mark")}
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        died = CrashPoints(folder)(careful, take_up_errands, prepare=make_session)
        wanted -= {(side, at) for side, at in wanted for each in died if side == each.side and at in each.what}
        if not wanted:
            break
    assert wanted == set(), "points at which nothing died"


@pytest.mark.parametrize(
    ("work", "point"),
    [(hasty, r"just after commit \d+ \(errands: mark\)"), (forgetful, r"just after commit \d+ \(halo: .*")],
)
def test_a_wrong_order_is_found_and_the_point_is_named(crash_points: CrashPoints, work: Work, point: str) -> None:
    """Marking before the effect, and an effect without a key, fail at the point where they lose or repeat it.

    What the kernel commits beside the work may come between the message and its mark.
    """
    with pytest.raises((AssertionError, TimeoutError), match=f"after a crash {point}"):
        crash_points(work, take_up_errands, prepare=make_session)


# the fixture itself


async def nothing(halo: Workbench) -> None: ...


def test_before_is_not_written_and_after_is(crash_points: CrashPoints) -> None:
    """What dies just before a commit has left nothing of it, what dies just after it has left all."""
    left: list[int] = []

    async def work(halo: Workbench) -> None:
        await (await intents(halo)).write(note)

    async def look(halo: Workbench) -> None:
        database = await intents(halo)
        left.append(len(await database.read(open_errands)))

    died = crash_points(work, look)
    counts = {str(point): count for point, count in zip(died, left, strict=False) if "note" in point.what}
    assert list(counts.values()) == [0, 1], counts
    assert left[-1] == 1


def test_work_that_commits_nothing_ends_at_once(crash_points: CrashPoints) -> None:
    """Without a commit there is no point to die at, and the end is checked all the same."""
    seen: list[Path] = []

    async def look(halo: Workbench) -> None:
        seen.append(halo.home)

    assert crash_points(nothing, look) == []
    assert len(seen) == 1


def test_a_death_leaves_no_process(crash_points: CrashPoints) -> None:
    """The processes that were killed are waited for, and the one that called is none of them."""

    async def work(halo: Workbench) -> None:
        await halo.start()

    pid = os.getpid()
    died = crash_points(work, nothing)
    assert (os.getpid(), died[0]) == (pid, CrashPoint(side="before", number=1, what="kernel: open"))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_work_that_fails_by_itself_is_told(crash_points: CrashPoints) -> None:
    """An error of the work is no crash: it is raised with what the process said."""

    async def wrong(halo: Workbench) -> None:
        raise ValueError("not today")

    with pytest.raises(AssertionError, match=r"(?s)the work, due to die just before commit 1, failed: .*not today"):
        crash_points(wrong, nothing)


def test_work_that_hangs_is_killed(crash_points: CrashPoints) -> None:
    """Work that does not end within its time is killed and told."""

    async def hang(halo: Workbench) -> None:
        await asyncio.sleep(600)

    with pytest.raises(AssertionError, match=r"it took longer than 0\.3 s"):
        crash_points(hang, nothing, seconds=0.3)


def test_a_process_that_ends_itself_is_told(crash_points: CrashPoints) -> None:
    """Work that ends its process at no point of ours is a failure, not a crash."""

    async def leave(halo: Workbench) -> None:
        os._exit(3)

    with pytest.raises(AssertionError, match="its process ended by itself"):
        crash_points(leave, nothing)


def test_the_number_of_commits_is_bounded(crash_points: CrashPoints) -> None:
    """Work with more commits than were allowed fails with the last one."""
    with pytest.raises(AssertionError, match="there are more than 2 commits; the last was just after commit 2"):
        crash_points(send, nothing, most=2)


async def test_a_running_loop_is_refused(crash_points: CrashPoints) -> None:
    """In an async test it says how to call it."""
    with pytest.raises(RuntimeError, match="in a plain `def test"):
        crash_points(nothing, nothing)
