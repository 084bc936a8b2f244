"""Who is asked, and what is in the ledger afterwards."""

from __future__ import annotations

import pytest

from halo_kernel import OPERATOR, Conflict
from halo_kernel.testing import Workbench, until
from ledger import BIG, SMALL, answer, begin, entries, questions, rests, results


async def test_a_small_one_runs_at_once(halo: Workbench) -> None:
    """Up to the limit nobody is asked."""
    session = await begin(halo, SMALL)
    await rests(session)
    assert await session.output() == "Done."
    assert await results(session) == ["Transferred 100.00 to ann; it now has 100.00."]
    assert await entries(halo) == [("ann", 10_000, "")]


async def test_the_limit_is_the_operators(halo: Workbench) -> None:
    """The setting says from where on a person is asked."""
    await halo.start(env={"HALO_LEDGER_LIMIT": "500"})
    await rests(await begin(halo, BIG))
    assert await entries(halo) == [("ann", 50_000, "")]


async def test_an_approved_one_runs_once(halo: Workbench) -> None:
    """Nothing is entered before the yes, one row after it, with the name of who allowed it."""
    session = await begin(halo, BIG)
    await rests(session, "waiting")
    assert await entries(halo) == []
    assert [asked.text for asked in await questions(halo, session)] == ["Transfer 500.00 to ann (rent)?"]
    await answer(halo, session, True)
    await rests(session)
    assert await entries(halo) == [("ann", 50_000, "operator")]


async def test_a_denied_one_says_why(halo: Workbench) -> None:
    """The model is told who said no, and what they wrote."""
    session = await begin(halo, BIG)
    await rests(session, "waiting")
    await answer(halo, session, False, "too much")
    await rests(session)
    assert await results(session) == ["Not transferred: operator said no: too much"]
    assert await entries(halo) == []


async def test_an_expired_one_is_not_done(halo: Workbench) -> None:
    """A question that nobody answers in time is a no."""
    await halo.start(env={"HALO_LEDGER_EXPIRES_IN": "1"})
    session = await begin(halo, BIG)
    await rests(session, "waiting")
    await rests(session)
    assert await results(session) == ["Not transferred: nobody allowed it in time."]
    assert await entries(halo) == []


async def test_an_answer_counts_once(halo: Workbench) -> None:
    """Who answers second is refused, and nothing is entered twice."""
    session = await begin(halo, BIG)
    await rests(session, "waiting")
    asked = await answer(halo, session, True)
    assert halo.kernel
    with pytest.raises(Conflict):
        await halo.kernel.host.questions.answer(
            asked.id, workspace=session.info.workspace, principal=OPERATOR, approved=True
        )
    await rests(session)
    assert await entries(halo) == [("ann", 50_000, "operator")]


async def test_a_restart_changes_nothing(halo: Workbench) -> None:
    """A question outlives the server that asked it."""
    await rests(await begin(halo, BIG), "waiting")
    await halo.start()
    session = await halo.session("bank_1")
    await rests(session, "waiting")
    await answer(halo, session, True)
    await rests(session)
    assert await entries(halo) == [("ann", 50_000, "operator")]


async def test_two_calls_are_two_questions(halo: Workbench) -> None:
    """A yes is for one call; what stands between waits its turn."""
    session = await begin(halo, BIG, SMALL, {**BIG, "account": "bob"})
    await rests(session, "waiting")
    first = await answer(halo, session, True)

    async def asks_again() -> bool:
        return any(asked.id != first.id for asked in await questions(halo, session))

    await until(asks_again)
    assert await entries(halo) == [("ann", 50_000, "operator"), ("ann", 10_000, "")]
    await answer(halo, session, False, "not bob")
    await rests(session)
    assert await results(session) == [
        "Transferred 500.00 to ann; it now has 500.00.",
        "Transferred 100.00 to ann; it now has 600.00.",
        "Not transferred: operator said no: not bob",
    ]


@pytest.mark.parametrize("amount", [0, "12", None, 1e300, [1]])
async def test_a_wrong_amount_is_refused(halo: Workbench, amount: object) -> None:
    """The error names the argument, and nothing is entered."""
    session = await begin(halo, {**BIG, "amount": amount})
    await rests(session)
    (text,) = await results(session)
    assert "the argument amount must" in text
    assert await entries(halo) == []
