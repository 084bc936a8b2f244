"""HTTP routes: how budgets stand, setting one, taking one away, and raising one for today."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, cast

import msgspec
from msgspec import Meta, Struct

from halo_kernel import BadInput, Exchange, Forbidden, NotFound, Route
from halo_lib_settings import write_settings

from . import ledger
from .amounts import TOKENS, units
from .books import Books
from .charges import unit_of
from .ledger import Act
from .settings import Budget, check_name
from .state import Budgets, BudgetState, let_go_on, state

BUDGETS = "/api/budgets"
KEY = "budget.budgets"


class RaiseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much more of a budget may be spent today, in its unit; `of` names which one of several it is."""

    amount: Annotated[float, Meta(gt=0, le=10**15)]
    of: str = ""


class Raised(Struct, frozen=True, kw_only=True):
    """The budget as it stands now, and how many waiting turns go on."""

    budget: BudgetState
    resumed: int


@dataclass(frozen=True)
class BudgetRoutes:
    """Answers the routes, for operators with full access."""

    books: Books

    async def list(self, exchange: Exchange) -> Budgets:
        """Show all budgets."""
        _check(exchange)
        return await state(self.books)

    async def show(self, exchange: Exchange) -> BudgetState:
        """Show one budget."""
        _check(exchange)
        return await self._one(exchange.params["name"])

    async def put(self, exchange: Exchange) -> BudgetState:
        """Set a budget, in the settings."""
        _check(exchange)
        try:
            name = check_name(exchange.params["name"])
        except ValueError as error:
            raise BadInput(str(error), field="name") from error
        await self._write(name, msgspec.to_builtins(cast("Budget", exchange.body)), exchange)
        return await self._one(name)

    async def delete(self, exchange: Exchange) -> Budgets:
        """Take a budget out of the settings; what was spent stays in the books."""
        _check(exchange)
        name = exchange.params["name"]
        self._budget(name)
        await self._write(name, None, exchange)
        return await state(self.books)

    async def increase(self, exchange: Exchange) -> Raised:
        """Raise a budget for today, and let turns that wait for it go on."""
        _check(exchange)
        name, wish = exchange.params["name"], cast("RaiseRequest", exchange.body)
        budget, who = self._budget(name), exchange.principal.name
        unit = unit_of(budget)
        if unit == TOKENS and wish.amount != int(wish.amount):
            raise BadInput("amount must be a whole number of tokens", field="amount")
        if bool(wish.of) != (budget.each is not None):
            each = f"which {budget.each} it is raised for" if budget.each else "nothing: it is one amount for all"
            raise BadInput(f"`of` must say {each}", field="of")
        act = Act(
            at=self.books.host.clock.now(),
            day=self.books.today,
            who=who,
            act="raised",
            account=f"{name}/{wish.of}" if wish.of else name,
            unit=unit,
            amount=units(wish.amount, unit),
        )
        database = await self.books.database()
        await database.write(lambda tx: ledger.allow(tx, act))
        resumed = await let_go_on(self.books, f"the budget was raised by {who}")
        return Raised(budget=await self._one(name), resumed=resumed)

    def _budget(self, name: str) -> Budget:
        found = self.books.settings.budgets.get(name)
        if found is None:
            raise NotFound(f"there is no budget {name}", advice="`halo budget` lists them")
        return found

    async def _one(self, name: str) -> BudgetState:
        self._budget(name)
        return (await state(self.books, name)).budgets[0]

    async def _write(self, name: str, value: object, exchange: Exchange) -> None:
        settings = self.books.host.settings
        source = settings.at().fields[KEY].source
        if source.startswith("environment"):
            raise BadInput(f"the budgets come from the {source} and are changed there", field="name")
        await asyncio.to_thread(write_settings, settings, {f"{KEY}.{name}": value})
        await let_go_on(self.books, f"the budget was changed by {exchange.principal.name}")


def _check(exchange: Exchange) -> None:
    if exchange.principal.access != "full":
        raise Forbidden("budgets, which are about everybody, take full access")


def budget_routes(books: Books) -> Sequence[Route]:
    """Return the routes."""
    on, one = BudgetRoutes(books), BUDGETS + "/{name}"
    return [
        Route(method="GET", path=BUDGETS, handler=on.list, reply=Budgets, summary="Show how all budgets stand today"),
        Route(method="GET", path=one, handler=on.show, reply=BudgetState, summary="Show how a budget stands today"),
        Route(
            method="PUT",
            path=one,
            handler=on.put,
            request=Budget,
            reply=BudgetState,
            summary="Set a budget: an amount a day, and for what",
        ),
        Route(method="DELETE", path=one, handler=on.delete, reply=Budgets, summary="Take a budget out of the settings"),
        Route(
            method="POST",
            path=one + "/raise",
            handler=on.increase,
            request=RaiseRequest,
            reply=Raised,
            summary="Allow more of a budget today; turns that wait for it go on",
        ),
    ]
