"""The ledger: accounts with what was spent each day, and what calls that are still running have set aside.

Every function is one transaction, or part of one. A call sets aside what it may cost on all of its accounts at once, or
on none; that is taken away exactly once, when its real cost is known, so nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from halo_kernel import Migration, Price, PrincipalKind, Tx, Usage

from .amounts import amount as cost_of
from .amounts import tokens

MIGRATIONS = (
    Migration(
        version=1,
        sql="""
CREATE TABLE days(
    account TEXT NOT NULL, unit TEXT NOT NULL, day TEXT NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0, more INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account, unit, day));
CREATE INDEX days_by_day ON days(day);
CREATE TABLE calls(
    id TEXT PRIMARY KEY, boot TEXT NOT NULL, at INTEGER NOT NULL, day TEXT NOT NULL, workspace TEXT NOT NULL,
    session TEXT NOT NULL, principal TEXT NOT NULL, kind TEXT NOT NULL, turn TEXT NOT NULL, purpose TEXT NOT NULL,
    head INTEGER NOT NULL, model TEXT NOT NULL, price TEXT NOT NULL);
CREATE TABLE holds(
    call TEXT NOT NULL, account TEXT NOT NULL, unit TEXT NOT NULL, amount INTEGER NOT NULL, priced INTEGER NOT NULL,
    PRIMARY KEY (call, account, unit));
CREATE INDEX holds_by_account ON holds(account, unit);
CREATE TABLE counted(reply TEXT PRIMARY KEY, day TEXT NOT NULL);
CREATE TABLE unpriced(
    account TEXT NOT NULL, unit TEXT NOT NULL, day TEXT NOT NULL, model TEXT NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (account, unit, day, model));
CREATE TABLE asked(
    workspace TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, account TEXT NOT NULL, unit TEXT NOT NULL,
    day TEXT NOT NULL, step INTEGER NOT NULL, amount INTEGER NOT NULL, granted INTEGER NOT NULL DEFAULT 0,
    text TEXT NOT NULL, principal TEXT NOT NULL, kind TEXT NOT NULL,
    PRIMARY KEY (workspace, session, turn, account, unit));
CREATE TABLE acts(
    id INTEGER PRIMARY KEY, at INTEGER NOT NULL, day TEXT NOT NULL, who TEXT NOT NULL, act TEXT NOT NULL,
    account TEXT NOT NULL, unit TEXT NOT NULL, amount INTEGER NOT NULL);
""",
    ),
)
Place = tuple[str, str, str]  # a turn: its workspace, its session, itself
_TURN = "workspace = ? AND session = ? AND turn = ?"


class Spender(Struct, frozen=True, kw_only=True):
    """A model call as the ledger keeps it until its cost is known; `head` is its session's last event before it."""

    id: str
    boot: str
    at: int
    workspace: str
    session: str
    principal: str
    kind: PrincipalKind
    turn: str
    purpose: str
    head: int
    model: str
    price: Price | None = None

    @property
    def place(self) -> Place:
        """Where its turn is."""
        return self.workspace, self.session, self.turn


class Act(Struct, frozen=True, kw_only=True):
    """What a person allowed beyond a budget on a day: `act` is `raised`, or `approved` by the answer to a question."""

    at: int
    day: str
    who: str
    act: str
    account: str
    unit: str
    amount: int


class Asked(Struct, frozen=True, kw_only=True):
    """What a turn asked a person for; `needs` are the accounts that had no room, with unit and amount.

    `promised` tells whether that was promised today, and not taken yet.
    """

    workspace: str
    session: str
    turn: str
    text: str
    principal: str
    kind: PrincipalKind
    promised: bool
    needs: dict[tuple[str, str], int]

    @property
    def place(self) -> Place:
        """Which turn it is."""
        return self.workspace, self.session, self.turn


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a call may cost on one account: `limit` is the budget's, `step` what an approval adds to it at least.

    One that is not `priced` costs nothing there; its tokens are noted beside the account.
    """

    account: str
    unit: str
    limit: int
    amount: int
    step: int = 0
    priced: bool = True


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How an account stands on a day: `more` is what people allowed beyond its limit, `held` what is set aside."""

    spent: int = 0
    more: int = 0
    held: int = 0

    def left(self, limit: int) -> int:
        """Return what may still be set aside; below 0 when it is overdrawn."""
        return limit + self.more - self.spent - self.held


Short = Sequence[tuple[Charge, Standing]]


def standing(tx: Tx, account: str, unit: str, day: str) -> Standing:
    """Return how an account stands."""
    found = "SELECT spent, more FROM days WHERE account = ? AND unit = ? AND day = ?"
    spent, more = tx.one(found, (account, unit, day)) or (0, 0)
    holds = "SELECT coalesce(sum(amount), 0) FROM holds WHERE account = ? AND unit = ?"
    (held,) = tx.one(holds, (account, unit)) or (0,)
    return Standing(spent=int(spent), more=int(more), held=int(held))


def reserve(tx: Tx, call: Spender, charges: Sequence[Charge], *, day: str) -> Short:
    """Set aside what a call may cost, on every account or on none; return the accounts that are used up.

    An account with anything left has room: the call that reaches its limit is let through.
    """
    step_back(tx, day)
    stands = [(charge, standing(tx, charge.account, charge.unit, day)) for charge in charges]
    short = [(charge, stand) for charge, stand in stands if charge.priced and stand.left(charge.limit) <= 0]
    if not short:
        _hold(tx, call, charges, day)
    return short


def note_question(tx: Tx, call: Spender, short: Short, *, day: str, text: str) -> None:
    """Remember what the question about a turn's next call offers, in place of an older one's."""
    tx.execute(f"DELETE FROM asked WHERE {_TURN}", call.place)
    for each, _ in short:
        tx.execute(
            "INSERT INTO asked(workspace, session, turn, account, unit, day, step, amount, text, principal, kind)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*call.place, each.account, each.unit, day, each.step, each.amount, text, call.principal, call.kind),
        )


def question_text(tx: Tx, place: Place) -> str:
    """Return the text of the last question about a turn, '' when there was none."""
    row = tx.one(f"SELECT text FROM asked WHERE {_TURN} LIMIT 1", place)
    return "" if row is None else str(row[0])


def approve(tx: Tx, call: Spender, charges: Sequence[Charge], *, day: str, who: str) -> None:
    """Set aside what an approved call may cost; where there is no room, make it: what was offered, or what it needs.

    An offer is for its day and for one call; a later call of the turn that comes with the same answer gets what it
    needs.
    """
    short = reserve(tx, call, charges, day=day)
    if not short:
        return
    rows = tx.execute(
        f"SELECT account, unit, step FROM asked WHERE {_TURN} AND day = ? AND granted = 0", (*call.place, day)
    )
    offered = {(account, unit): int(step) for account, unit, step in rows}
    for charge, stand in short:
        more = max(offered.get((charge.account, charge.unit), 0), charge.amount - stand.left(charge.limit))
        told = Act(at=call.at, day=day, who=who, act="approved", account=charge.account, unit=charge.unit, amount=more)
        allow(tx, told)
    tx.execute(f"UPDATE asked SET granted = 2 WHERE {_TURN}", call.place)
    _hold(tx, call, charges, day)


def promise(tx: Tx, place: Place, *, day: str) -> None:
    """Note that a turn may go on with what its next call needs, because there is room; more is not offered."""
    tx.execute(f"UPDATE asked SET granted = 1, day = ? WHERE {_TURN}", (day, *place))


def allow(tx: Tx, act: Act) -> None:
    """Add to an account's day what a person allowed, and note who did."""
    step_back(tx, act.day)
    _add(tx, act.account, act.unit, act.day, more=act.amount)
    values = (act.at, act.day, act.who, act.act, act.account, act.unit, act.amount)
    tx.execute("INSERT INTO acts(at, day, who, act, account, unit, amount) VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def settle(tx: Tx, call: str, spent: Mapping[str, Usage], *, day: str, unknown: bool = False) -> bool:
    """Take away what a call had set aside and count what it spent; false when that was done before.

    `spent` is by reply, each counted once. Where it is `unknown` what a call cost, what was set aside counts.
    """
    step_back(tx, day)
    row = tx.one("DELETE FROM calls WHERE id = ? RETURNING model, price, day", (call,))
    if row is None:
        return False
    model, price, began = str(row[0]), msgspec.json.decode(row[1], type=Price | None), str(row[2])
    new = [usage for reply, usage in spent.items() if _is_new(tx, reply, day)]
    holds = list(tx.execute("DELETE FROM holds WHERE call = ? RETURNING account, unit, amount, priced", (call,)))
    for account, unit, held, priced in holds:
        if priced:
            cost = int(held) if unknown else sum(cost_of(usage, unit, price) for usage in new)
            _add(tx, account, unit, began, spent=cost)
        elif count := sum(map(tokens, new)):
            _note_unpriced(tx, account, unit, began, model, count)
    return True


def open_calls(tx: Tx) -> Sequence[Spender]:
    """Return the calls whose cost is not known yet, oldest first."""
    names = Spender.__struct_fields__
    rows = tx.execute(f"SELECT {', '.join(names)} FROM calls ORDER BY at, id")
    found = (dict(zip(names, (*row[:-1], msgspec.json.decode(row[-1])), strict=True)) for row in rows)
    return [msgspec.convert(row, Spender) for row in found]


def asked(tx: Tx, day: str) -> Sequence[Asked]:
    """Return what turns have asked for, by day."""
    found: dict[Place, Asked] = {}
    rows = tx.execute(
        "SELECT workspace, session, turn, text, principal, kind, granted = 1 AND day = ?, account, unit, amount"
        " FROM asked ORDER BY day, session, turn, account",
        (day,),
    )
    for workspace, session, turn, text, principal, kind, promised, account, unit, amount in rows:
        told = Asked(
            workspace=workspace,
            session=session,
            turn=turn,
            text=text,
            principal=principal,
            kind=kind,
            promised=bool(promised),
            needs={},
        )
        found.setdefault(told.place, told).needs[account, unit] = amount
    return list(found.values())


def unpriced(tx: Tx, account: str, unit: str, day: str) -> dict[str, int]:
    """Return the tokens of models without a price, which a budget of money did not count, by model."""
    where = "account = ? AND unit = ? AND day = ? ORDER BY model"
    rows = tx.execute(f"SELECT model, tokens FROM unpriced WHERE {where}", (account, unit, day))
    return {str(model): int(count) for model, count in rows}


def accounts(tx: Tx, name: str, unit: str, day: str) -> Sequence[str]:
    """Return the accounts of a budget that has one for each of something, as far as they were used that day."""
    used = " UNION ".join(f"SELECT account FROM {table} WHERE unit = ? AND day = ?" for table in ("days", "unpriced"))
    rows = tx.execute(f"{used} UNION SELECT account FROM holds WHERE unit = ?", (unit, day, unit, day, unit))
    return sorted(str(account) for (account,) in rows if str(account).startswith(f"{name}/"))


def acts(tx: Tx, day: str) -> Sequence[Act]:
    """Return what people allowed on a day, oldest first."""
    names = Act.__struct_fields__
    rows = tx.execute(f"SELECT {', '.join(names)} FROM acts WHERE day = ? ORDER BY id", (day,))
    return [msgspec.convert(dict(zip(names, row, strict=True)), Act) for row in rows]


def forget_turn(tx: Tx, place: Place) -> None:
    """Forget what was asked about a turn that has ended."""
    tx.execute(f"DELETE FROM asked WHERE {_TURN}", place)


def prune(tx: Tx, *, details: str, everything: str) -> None:
    """Forget the details of days before one, and all about those before another."""
    for table in ("counted", "asked", "unpriced"):
        tx.execute(f"DELETE FROM {table} WHERE day < ?", (details,))
    for table in ("days", "acts"):
        tx.execute(f"DELETE FROM {table} WHERE day < ?", (everything,))


def step_back(tx: Tx, day: str) -> None:
    """Bring what later days have spent into this one: a clock that was put back frees nothing, and nothing is stuck."""
    later = list(tx.execute("SELECT account, unit, sum(spent) FROM days WHERE day > ? GROUP BY account, unit", (day,)))
    for account, unit, spent in later:
        _add(tx, account, unit, day, spent=int(spent))
    if later:
        tx.execute("DELETE FROM days WHERE day > ?", (day,))
        tx.execute("UPDATE counted SET day = ? WHERE day > ?", (day, day))
    tx.execute("UPDATE calls SET day = ? WHERE day > ?", (day, day))


def _hold(tx: Tx, call: Spender, charges: Sequence[Charge], day: str) -> None:
    price = msgspec.json.encode(call.price).decode()
    told = (call.id, call.boot, call.at, day, *call.place, call.principal, call.kind, call.purpose, call.head)
    tx.execute(
        "INSERT INTO calls(id, boot, at, day, workspace, session, turn, principal, kind, purpose, head, model, price)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*told, call.model, price),
    )
    for each in charges:
        tx.execute(
            "INSERT INTO holds(call, account, unit, amount, priced) VALUES (?, ?, ?, ?, ?)",
            (call.id, each.account, each.unit, each.amount if each.priced else 0, int(each.priced)),
        )


def _add(tx: Tx, account: str, unit: str, day: str, *, spent: int = 0, more: int = 0) -> None:
    tx.execute(
        "INSERT INTO days(account, unit, day, spent, more) VALUES (?, ?, ?, ?, ?) ON CONFLICT (account, unit, day)"
        " DO UPDATE SET spent = days.spent + excluded.spent, more = days.more + excluded.more",
        (account, unit, day, spent, more),
    )


def _note_unpriced(tx: Tx, account: str, unit: str, day: str, model: str, count: int) -> None:
    tx.execute(
        "INSERT INTO unpriced(account, unit, day, model, tokens) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (account, unit, day, model) DO UPDATE SET tokens = unpriced.tokens + excluded.tokens",
        (account, unit, day, model, count),
    )


def _is_new(tx: Tx, reply: str, day: str) -> bool:
    """Note that a reply is counted; false when it was before."""
    sql = "INSERT INTO counted(reply, day) VALUES (?, ?) ON CONFLICT (reply) DO NOTHING RETURNING reply"
    return tx.one(sql, (reply, day)) is not None
