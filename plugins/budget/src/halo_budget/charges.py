"""Which budgets a model call falls under, and what it may cost on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from halo_kernel import Price, SessionInfo, Usage

from .amounts import TOKENS, amount, units
from .ledger import Charge
from .settings import Budget, BudgetSettings, Dimension

_NO_JOBS = ("", "message", "report", "recovery")  # what the kernel says why a turn runs


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What there is to know about a call: its names in each dimension, and where its workspace is."""

    names: Mapping[Dimension, Sequence[str]]
    folder: str


def facts(session: SessionInfo, root: SessionInfo, cause: str) -> Facts:
    """Return the facts of a call; a session below another one is about the channel and the jobs of its root."""
    jobs = {*session.marks, *root.marks} | ({cause} - {*_NO_JOBS})
    return Facts(
        names={
            "workspace": [session.workspace],
            "agent": [session.agent],
            "channel": [root.origin],
            "user": [session.principal],
            "job": sorted(jobs),
            "session": [session.root],
        },
        folder=session.folder,
    )


def unit_of(budget: Budget) -> str:
    """Return what a budget counts: tokens, or a currency."""
    return budget.currency if budget.money is not None else TOKENS


def limit_of(budget: Budget) -> int:
    """Return a budget's amount a day, in the smallest parts of its unit."""
    return units(budget.money if budget.money is not None else budget.tokens or 0, unit_of(budget))


def charges(settings: BudgetSettings, about: Facts, expected: Usage, price: Price | None) -> Sequence[Charge]:
    """Return what a call is expected to cost, on every account of every budget that it falls under."""
    return [
        Charge(
            account=account,
            unit=unit_of(budget),
            limit=limit_of(budget),
            amount=amount(expected, unit_of(budget), price),
            step=limit_of(budget) * settings.step_percent // 100,
            priced=unit_of(budget) == TOKENS or (price is not None and price.currency == budget.currency),
        )
        for name, budget in sorted(settings.budgets.items())
        if _fits(budget, about)
        for account in _accounts(name, budget, about)
    ]


def _fits(budget: Budget, about: Facts) -> bool:
    fits = all(wish in ("", *about.names[each]) for each, wish in _wishes(budget) if each != "workspace")
    return fits and budget.workspace in ("", *about.names["workspace"], about.folder)


def _accounts(name: str, budget: Budget, about: Facts) -> Sequence[str]:
    return [name] if budget.each is None else [f"{name}/{value}" for value in about.names[budget.each]]


def _wishes(budget: Budget) -> Iterator[tuple[Dimension, str]]:
    yield "workspace", budget.workspace
    yield "agent", budget.agent
    yield "channel", budget.channel
    yield "user", budget.user
    yield "job", budget.job
    yield "session", budget.session


def described(budget: Budget) -> str:
    """Return what a budget is about, for people."""
    parts = [f"{each} {wish}" for each, wish in _wishes(budget) if wish]
    parts += [f"each {budget.each}"] if budget.each else []
    return ", ".join(parts) or "everything"
