"""The books of one home: they let model calls through, count what these cost, and know how every budget stands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from halo_kernel import (
    Answer,
    BadFile,
    Database,
    Denial,
    HaloError,
    Host,
    LeaseHeld,
    ModelCall,
    NotFound,
    Principal,
    Question,
    Session,
    SessionInfo,
    Tx,
    Usage,
)

from . import ledger
from .amounts import estimate, shown
from .charges import charges, facts
from .days import clock_time, day_of, days_before, end_of_day
from .journal import journaled
from .ledger import Charge, Short, Spender
from .settings import BudgetSettings

_LONGEST_CALL = 3_600_000
_DETAIL_DAYS, _DAYS = 14, 400


class Books:
    """Guards model calls for one host. The database is opened when the first call falls under a budget."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.boot = host.clock.new_id()
        self.room = asyncio.Event()  # somebody may have made room
        self._opening: asyncio.Task[Database] | None = None
        self._begun: set[str] = set()

    @property
    def settings(self) -> BudgetSettings:
        """The settings as they are now."""
        return self.host.settings.of(BudgetSettings)

    @property
    def today(self) -> str:
        """The day as of now."""
        return day_of(self.host.clock.now(), self.settings.timezone)

    @property
    def is_used(self) -> bool:
        """Whether a call fell under a budget, or somebody asked how one stands."""
        return self._opening is not None

    async def database(self) -> Database:
        """Return the ledger's database. Raises `HaloError` when it cannot be opened now."""
        if self._opening is None or _has_failed(self._opening):
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> Database:
        database = await self.host.data.open("budget", "global", ledger.MIGRATIONS)
        await database.lease(_lease_of(self.boot))  # what a living process has set aside is its own to settle
        self.host.spawn("settle what others left", self.settle_left())
        return database

    # one call

    async def authorize(self, call: ModelCall, session: Session) -> Denial | Question | None:
        """Set aside what a call may cost; where a budget is used up, ask a person, or refuse if none can be."""
        settings, info, now = self.settings, session.info, self.host.clock.now()
        if not settings.budgets:
            return None
        about = facts(info, await self._root(info), call.cause)
        price = settings.prices.get(call.model, call.price)
        owed = charges(settings, about, estimate(call.request, settings.answer_tokens), price)
        if not owed:
            return None
        spender = Spender(
            id=call.id,
            boot=self.boot,
            at=now,
            workspace=info.workspace,
            session=info.id,
            principal=info.principal,
            kind=info.principal_kind,
            turn=call.turn,
            purpose=call.purpose,
            head=info.head,
            model=call.model,
            price=price,
        )
        return await self._decide(call, spender, owed)

    async def _decide(self, call: ModelCall, spender: Spender, owed: Sequence[Charge]) -> Denial | Question | None:
        database, day, answer = await self.database(), self.today, call.approval
        asked = await self._own_question(database, spender, answer.question) if answer is not None else ""
        if answer is not None and not answer.approved:
            return Denial(f"{asked} {_no(answer)}") if asked else None

        def write(tx: Tx) -> tuple[Short, str]:
            if answer is not None and asked:
                ledger.approve(tx, spender, owed, day=day, who=answer.by)
                return (), ""
            short = ledger.reserve(tx, spender, owed, day=day)
            text = self._reason(short)
            if short and spender.turn and answer is None:
                text = f"{text} {_offer(short)}"
                ledger.note_question(tx, spender, short, day=day, text=text)
            return short, text

        self._begun.add(call.id)  # before: who is cancelled here does not know whether it was written
        short, text = await database.write(write)
        if not short:
            return None
        self._begun.discard(call.id)
        if not call.turn or answer is not None:
            return Denial(f"{text} `halo budget raise` allows more for today.")
        return Question(text=text, access="full")

    async def _own_question(self, database: Database, spender: Spender, number: int) -> str:
        """Return what we asked, if that is the question that was answered, and not another plugin's."""
        ours = await database.read(partial(ledger.question_text, place=spender.place))
        owner = Principal(name=spender.principal, kind=spender.kind)
        found = await self.host.questions.list(
            workspace=spender.workspace, principal=owner, session=spender.session, everything=True
        )
        return ours if any(each.id == number and each.text == ours for each in found) else ""

    def _reason(self, short: Short) -> str:
        """Return which budgets are used up, and until when."""
        if not short:
            return ""
        parts = [
            f"The budget {each.account} is used up: {shown(stand.spent, each.unit)} of"
            f" {shown(each.limit + stand.more, each.unit)} are spent today"
            + (f" and {shown(stand.held, each.unit)} set aside." if stand.held else ".")
            for each, stand in short
        ]
        zone = self.settings.timezone
        return f"{' '.join(parts)} The day ends at {clock_time(end_of_day(self.host.clock.now(), zone), zone)}."

    async def _root(self, info: SessionInfo) -> SessionInfo:
        """Return the session at the top of the tree; one that cannot be opened is as its child is."""
        if info.root == info.id:
            return info
        owner = Principal(name=info.principal, kind=info.principal_kind)
        try:
            return (await self.host.sessions.open(info.root, workspace=info.workspace, principal=owner)).info
        except (NotFound, BadFile):
            return info

    async def finished(self, call: ModelCall) -> None:
        """Count what a call cost, and give back what it had set aside beyond that."""
        if call.id not in self._begun:
            return
        known = {reply: usage for reply, usage in call.spent.items() if usage is not None}
        await self._settle(call.id, known, unknown=bool(call.spent) and not known and call.error is None)
        self._begun.discard(call.id)
        self.room.set()

    async def _settle(self, call: str, spent: Mapping[str, Usage], *, unknown: bool) -> None:
        database, day = await self.database(), self.today
        await database.write(lambda tx: ledger.settle(tx, call, spent, day=day, unknown=unknown))

    async def ended(self, session: SessionInfo, turn: str) -> None:
        """Forget what a turn asked for, once it is over."""
        place = session.workspace, session.id, turn
        if not self.is_used:
            return
        database = await self.database()
        asked = await database.read(partial(ledger.question_text, place=place))
        if asked:  # most turns have asked for nothing, and a write would be one more
            await database.write(partial(ledger.forget_turn, place=place))

    # what others left

    async def settle_left(self) -> None:
        """Settle calls whose end nobody told of, from the journal: those of processes that have died.

        Where the journal says nothing of a call, it was cut, and what it had set aside counts: a provider may well want
        to be paid for it.
        """
        database, now = await self.database(), self.host.clock.now()
        left = await database.read(ledger.open_calls)
        mine = [each for each in left if each.boot == self.boot and now - each.at > _LONGEST_CALL]
        for boot in {each.boot for each in left} - {self.boot}:
            try:
                lease = await database.lease(_lease_of(boot))
            except LeaseHeld:
                continue
            await self._settle_all([each for each in left if each.boot == boot])
            await lease.release()
        await self._settle_all(mine)

    async def _settle_all(self, calls: Sequence[Spender]) -> None:
        for call in calls:
            try:
                spent = await journaled(self.host, call)
                await self._settle(call.id, spent, unknown=not spent)
            except HaloError as error:  # it is tried again
                self.host.log.warning("a model call is not settled yet", session=call.session, error=error.message)

    async def forget_old(self) -> None:
        """Forget what nobody asks for any more."""
        database, day = await self.database(), self.today
        details, everything = days_before(day, _DETAIL_DAYS), days_before(day, _DAYS)
        await database.write(lambda tx: ledger.prune(tx, details=details, everything=everything))


def _has_failed(task: asyncio.Task[Database]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _lease_of(boot: str) -> str:
    return f"boot:{boot}"


def _no(answer: Answer) -> str:
    """Return how a question was answered that was not answered with yes."""
    if not answer.by:
        return "Nobody answered in time." if answer.text == "expired" else f"No: {answer.text}."
    return f"No, said {answer.by}" + ("." if answer.text == "denied" else f": {answer.text}")


def _offer(short: Short) -> str:
    """Return what a yes allows."""
    more = (shown(max(each.step, each.amount - stand.left(each.limit)), each.unit) for each, stand in short)
    return f"Allow {' and '.join(more)} more today?"
