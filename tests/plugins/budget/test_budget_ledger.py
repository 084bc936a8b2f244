"""The ledger under any order of events: what is on the accounts is what was spent, each reply once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from halo_budget import ledger
from halo_budget.ledger import Act, Charge, Spender
from halo_kernel import Usage

LIMITS = {"all": 1000, "agent/a": 300, "agent/b": 300}
ACCOUNTS = st.sampled_from([("all",), ("all", "agent/a"), ("all", "agent/b"), ("agent/b",)])


class Rows:
    """A transaction over SQLite, as a storage engine gives it."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for migration in ledger.MIGRATIONS:
            self.connection.executescript(migration.sql)

    def execute(self, sql: str, args: Sequence[Any] = ()) -> Iterator[Any]:
        return iter(self.connection.execute(sql, tuple(args)).fetchall())

    def one(self, sql: str, args: Sequence[Any] = ()) -> Any:
        return next(self.execute(sql, args), None)


@dataclass
class Known:
    """What the test knows of an account."""

    spent: dict[str, int] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)

    def add(self, kind: dict[str, int], day: str, amount: int) -> None:
        kind[day] = kind.get(day, 0) + amount


@dataclass(frozen=True)
class Running:
    """A call that is running."""

    id: str
    accounts: tuple[str, ...]
    amount: int
    day: str


class Ledger(RuleBasedStateMachine):
    """Calls that begin, end, end twice, ask and are allowed more, while days come and go."""

    running = Bundle("running")
    ended = Bundle("ended")

    def __init__(self) -> None:
        super().__init__()
        self.tx = Rows()
        self.day = date(2026, 11, 30)
        self.known = {name: Known() for name in LIMITS}
        self.held: dict[str, Running] = {}
        self.replies: set[str] = set()
        self.numbers = iter(range(10**6))

    @property
    def today(self) -> str:
        return self.day.isoformat()

    def spender(self) -> Spender:
        number = next(self.numbers)
        return Spender(
            id=f"call{number}",
            boot="one",
            at=number,
            workspace="w",
            session="s",
            principal="operator",
            kind="person",
            turn="t",
            purpose="turn",
            head=0,
            model="m/m",
        )

    def left(self, name: str) -> int:
        known = self.known[name]
        held = sum(each.amount for each in self.held.values() if name in each.accounts)
        return LIMITS[name] + known.more.get(self.today, 0) - known.spent.get(self.today, 0) - held

    def charges(self, names: Sequence[str], amount: int) -> list[Charge]:
        return [Charge(account=name, unit="tokens", limit=LIMITS[name], amount=amount, step=60) for name in names]

    def note(self, call: Spender, names: tuple[str, ...], amount: int) -> Running:
        found = self.held[call.id] = Running(call.id, names, amount, self.today)
        return found

    @rule(target=running, names=ACCOUNTS, amount=st.integers(1, 400), offered=st.booleans())
    def begin(self, names: tuple[str, ...], amount: int, offered: bool) -> Running:
        """It is let through exactly when something is left everywhere; else it may ask, and is allowed more."""
        call, charges = self.spender(), self.charges(names, amount)
        full = {name for name in names if self.left(name) <= 0}
        short = ledger.reserve(self.tx, call, charges, day=self.today)
        assert {charge.account for charge, _ in short} == full
        if short:
            if offered:
                ledger.note_question(self.tx, call, short, day=self.today, text="more?")
            else:
                ledger.forget_turn(self.tx, call.place)
            for name in full:
                needed = amount - self.left(name)
                self.known[name].add(self.known[name].more, self.today, max(needed, 60 if offered else 0))
            ledger.approve(self.tx, call, charges, day=self.today, who="operator")
        return self.note(call, names, amount)

    @rule(
        target=ended,
        call=consumes(running),
        spent=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 500), max_size=3),
        unknown=st.booleans(),
    )
    def end(self, call: Running, spent: dict[str, int], unknown: bool) -> Running:
        """What a call cost is on the day that it began, replies that were counted before left out."""
        usages = {reply: Usage(input=count) for reply, count in spent.items()}
        assert ledger.settle(self.tx, call.id, usages, day=self.today, unknown=unknown)
        new = sum(count for reply, count in spent.items() if reply not in self.replies)
        self.replies |= spent.keys()
        call = self.held.pop(call.id)  # the day that it began on may have been moved
        for name in call.accounts:
            known = self.known[name]
            known.add(known.spent, min(call.day, self.today), call.amount if unknown else new)
        return call

    @rule(call=ended)
    def end_again(self, call: Running) -> None:
        """Settling twice does nothing."""
        assert not ledger.settle(self.tx, call.id, {"z": Usage(input=999)}, day=self.today)

    @rule(name=st.sampled_from(sorted(LIMITS)), amount=st.integers(1, 200))
    def allow(self, name: str, amount: int) -> None:
        act = Act(at=0, day=self.today, who="operator", act="raised", account=name, unit="tokens", amount=amount)
        ledger.allow(self.tx, act)
        self.known[name].add(self.known[name].more, self.today, amount)

    @rule(days=st.integers(1, 3))
    def wait(self, days: int) -> None:
        """Days go by; what is set aside stays."""
        self.day += timedelta(days=days)

    @rule(days=st.integers(1, 2))
    def put_back(self, days: int) -> None:
        """A clock that was wrong is put right: what was spent since counts today, what was allowed is gone."""
        self.day -= timedelta(days=days)
        ledger.step_back(self.tx, self.today)
        for known in self.known.values():
            later = [day for day in known.spent if day > self.today]
            known.add(known.spent, self.today, sum(known.spent.pop(day) for day in later))
            for day in [day for day in known.more if day > self.today]:
                del known.more[day]
        moved = {each.id: each for each in self.held.values() if each.day > self.today}
        for each in moved.values():
            self.held[each.id] = Running(each.id, each.accounts, each.amount, self.today)

    @invariant()
    def accounts_are_right(self) -> None:
        for name, known in self.known.items():
            stand = ledger.standing(self.tx, name, "tokens", self.today)
            assert stand.spent == known.spent.get(self.today, 0)
            assert stand.more == known.more.get(self.today, 0)
            assert stand.left(LIMITS[name]) == self.left(name)

    @invariant()
    def nothing_is_held_without_a_call(self) -> None:
        assert {call.id for call in ledger.open_calls(self.tx)} == set(self.held)

    def teardown(self) -> None:
        self.tx.connection.close()


Ledger.TestCase.settings = examples(max_examples=60, stateful_step_count=30, deadline=None)
TestLedger = Ledger.TestCase
TestLedger.__doc__ = (
    "Whatever happens in whatever order, accounts are the sum of what was spent, allowed and set aside."
)
