"""A conversation with a clerk, for the tests: what they ask for, answer and look at."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import OPERATOR, Incoming, QuestionInfo, Session, ToolFinished
from halo_kernel.testing import Answer, Calls, Workbench, journal, until
from halo_ledger.transfer import TABLES

BIG: dict[str, object] = {"account": "ann", "amount": 500, "note": "rent"}
SMALL: dict[str, object] = {"account": "ann", "amount": 100, "note": "lunch"}


async def begin(halo: Workbench, *calls: dict[str, object]) -> Session:
    """Have the model make calls, and return the session, which works on them."""
    halo.model.then(Calls([("transfer_money", call) for call in calls]), Answer("Done."))
    session = await halo.session("bank_1")
    await session.submit(Incoming(text="Pay.", key="pay:1"))
    return session


async def rests(session: Session, state: str = "idle") -> None:
    """Wait until a session has come to rest, or, with `waiting`, to a question."""
    await until(lambda: session.info.state == state, what=f"the state {state}")


async def questions(halo: Workbench, session: Session) -> Sequence[QuestionInfo]:
    """Return what waits for a person."""
    assert halo.kernel
    return await halo.kernel.host.questions.list(workspace=session.info.workspace, principal=OPERATOR)


async def answer(halo: Workbench, session: Session, approved: bool, text: str = "") -> QuestionInfo:
    """Answer the one open question as the operator."""
    assert halo.kernel
    (asked,) = await questions(halo, session)
    return await halo.kernel.host.questions.answer(
        asked.id, workspace=session.info.workspace, principal=OPERATOR, approved=approved, text=text
    )


async def results(session: Session) -> list[str]:
    """Return what the tool told the model, call by call."""
    return [event.body.text for event in await journal(session) if isinstance(event.body, ToolFinished)]


async def entries(halo: Workbench) -> list[tuple[str, int, str]]:
    """Return the ledger: account, cents, and who allowed it."""
    assert halo.kernel
    database = await halo.kernel.host.data.open("ledger", "global", TABLES)
    return await database.read(
        lambda tx: [
            (str(a), int(c), str(by)) for a, c, by in tx.execute("SELECT account, cents, approved_by FROM entries")
        ]
    )
