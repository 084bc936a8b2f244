"""What a `kill -9` leaves, before and after each commit from a person's yes on."""

from __future__ import annotations

from halo_kernel.testing import CrashPoints, Workbench
from ledger import BIG, answer, begin, entries, questions, rests, results


async def ask(halo: Workbench) -> None:
    """Come to the question."""
    await rests(await begin(halo, BIG), "waiting")


async def approve(halo: Workbench) -> None:
    """Say yes, and go on to the end: each commit of this is a point to die at."""
    session = await halo.session("bank_1")
    await answer(halo, session, True)
    await rests(session)


async def check(halo: Workbench) -> None:
    """Look at what is left: a ledger that agrees with what the model was told."""
    await halo.start()
    session = await halo.session("bank_1")
    if await questions(halo, session):
        await answer(halo, session, True)
    await rests(session)
    (told,) = await results(session)
    entered = await entries(halo)
    assert len(entered) <= 1
    assert entered or not told.startswith("Transferred")


def test_a_crash_never_doubles_it(crash_points: CrashPoints) -> None:
    """However it dies, an allowed transfer is entered at most once, and one that was told of is there."""
    assert len(crash_points(approve, check, begin=ask)) > 5
