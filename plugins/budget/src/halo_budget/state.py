"""How budgets stand, for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from halo_kernel import HaloError, Principal, QuestionInfo, Tx

from . import ledger
from .amounts import number
from .books import Books
from .charges import described, limit_of, unit_of
from .days import end_of_day
from .ledger import Asked
from .settings import Budget


class AccountState(Struct, frozen=True, kw_only=True):
    """One amount of a budget: `of` is what it is for where a budget has one for each of something.

    `more` is what people allowed beyond the limit today, `left` what may still be spent, below 0 for what is overdrawn.
    `unpriced` are tokens of models whose price in this currency nobody knows, by model: they are not counted.
    """

    of: str
    spent: float
    set_aside: float
    more: float
    left: float
    unpriced: dict[str, int]


class ActState(Struct, frozen=True, kw_only=True):
    """What a person allowed today; `at` is in UTC milliseconds, `act` `raised` or `approved`."""

    at: int
    who: str
    act: str
    of: str
    amount: float


class WaitingTurn(Struct, frozen=True, kw_only=True):
    """A turn that waits for the answer to a question."""

    workspace: str
    session: str
    turn: str
    question: int
    text: str


class BudgetState(Struct, frozen=True, kw_only=True):
    """A budget as it stands today: amounts are in `unit`, `tokens` or a currency; `settings` are as they were set."""

    name: str
    about: str
    unit: str
    limit: float
    settings: Budget
    accounts: Sequence[AccountState]
    acts: Sequence[ActState]
    waiting: Sequence[WaitingTurn]


class Budgets(Struct, frozen=True, kw_only=True):
    """All budgets of a day, which ends at `ends_at` (UTC milliseconds)."""

    day: str
    timezone: str
    ends_at: int
    budgets: Sequence[BudgetState]


async def state(books: Books, only: str = "") -> Budgets:
    """Return how all budgets stand, or one of them."""
    settings, now, day = books.settings, books.host.clock.now(), books.today
    chosen = {name: each for name, each in sorted(settings.budgets.items()) if only in ("", name)}
    zone = settings.timezone
    found: Sequence[BudgetState] = ()
    if chosen:
        waiting, database = await open_questions(books), await books.database()
        found = await database.read(
            lambda tx: [_state(tx, name, budget, day, waiting) for name, budget in chosen.items()]
        )
    return Budgets(day=day, timezone=zone, ends_at=end_of_day(now, zone), budgets=found)


def _state(tx: Tx, name: str, budget: Budget, day: str, waiting: Sequence[tuple[Asked, QuestionInfo]]) -> BudgetState:
    unit = unit_of(budget)
    names = ledger.accounts(tx, name, unit, day) if budget.each else [name]
    acts = [
        ActState(at=act.at, who=act.who, act=act.act, of=_of(act.account), amount=number(act.amount, unit))
        for act in ledger.acts(tx, day)
        if budget_of(act.account) == name and act.unit == unit
    ]
    return BudgetState(
        name=name,
        about=described(budget),
        unit=unit,
        limit=number(limit_of(budget), unit),
        settings=budget,
        accounts=[_account(tx, each, budget, day) for each in names],
        acts=acts,
        waiting=[
            WaitingTurn(
                workspace=turn.workspace, session=turn.session, turn=turn.turn, question=asked.id, text=turn.text
            )
            for turn, asked in waiting
            if any(budget_of(each) == name for each, _ in turn.needs)
        ],
    )


def _account(tx: Tx, name: str, budget: Budget, day: str) -> AccountState:
    unit = unit_of(budget)
    stand = ledger.standing(tx, name, unit, day)
    return AccountState(
        of=_of(name),
        spent=number(stand.spent, unit),
        set_aside=number(stand.held, unit),
        more=number(stand.more, unit),
        left=number(stand.left(limit_of(budget)), unit),
        unpriced=ledger.unpriced(tx, name, unit, day),
    )


def budget_of(account: str) -> str:
    """Return the name of the budget that an account is of."""
    return account.partition("/")[0]


def _of(account: str) -> str:
    return account.partition("/")[2]


async def open_questions(books: Books) -> Sequence[tuple[Asked, QuestionInfo]]:
    """Return what waits for an answer, with its question."""
    database = await books.database()
    turns = await database.read(partial(ledger.asked, day=books.today))
    asked = [(turn, await _question_of(books, turn)) for turn in turns]
    return [(turn, question) for turn, question in asked if question is not None]


async def _question_of(books: Books, turn: Asked) -> QuestionInfo | None:
    """Return the open question of a turn, None when it was settled, or cannot be looked at now."""
    owner = Principal(name=turn.principal, kind=turn.kind)
    with suppress(HaloError):  # a workspace that cannot be opened keeps no other one waiting
        found = await books.host.questions.list(workspace=turn.workspace, principal=owner, session=turn.session)
        return next((each for each in found if (each.turn, each.text) == (turn.turn, turn.text)), None)
    return None


async def let_go_on(books: Books, why: str) -> int:
    """Answer the questions of turns whose budgets have room again, such as on a new day; return how many."""
    limits = {(name, unit_of(each)): limit_of(each) for name, each in books.settings.budgets.items()}
    day, count, database = books.today, 0, await books.database()
    asked, left = await database.read(partial(_room, limits=limits, day=day))
    for turn in asked:
        needs = {key: need for key, need in turn.needs.items() if key in left}
        own = turn.needs if turn.promised else {}
        if min((left[key] + own.get(key, 0) for key in needs), default=1) <= 0:
            continue
        question = await _question_of(books, turn)
        if question is None:
            continue
        if not turn.promised:
            left.subtract(needs)
            await database.write(partial(ledger.promise, place=turn.place, day=day))
        owner = Principal(name=turn.principal, kind=turn.kind)
        with suppress(HaloError):  # such as one that was settled meanwhile
            await books.host.questions.answer(
                question.id, workspace=turn.workspace, principal=owner, approved=True, text=why
            )
            count += 1
    return count


def _room(tx: Tx, limits: Mapping[tuple[str, str], int], day: str) -> tuple[Sequence[Asked], Counter[tuple[str, str]]]:
    """Return what turns have asked for, and what is left of the accounts that they need, as far as there is a limit.

    What was promised to some is left for nobody else.
    """
    asked, left = ledger.asked(tx, day), Counter[tuple[str, str]]()
    for name, unit in {key for turn in asked for key in turn.needs}:
        if (limit := limits.get((budget_of(name), unit))) is not None:
            left[name, unit] = ledger.standing(tx, name, unit, day).left(limit)
    for turn in asked:
        if turn.promised:
            left.subtract({key: need for key, need in turn.needs.items() if key in left})
    return asked, left
