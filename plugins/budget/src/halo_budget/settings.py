"""The section `budget`: what may be spent a day, by whom, and what models cost."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from halo_kernel import Price, Section

from .days import zone_of

Dimension = Literal["workspace", "agent", "channel", "user", "job", "session"]
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An amount a day, of tokens or of money; it is about every call that all of its other fields fit, '' any.

    `workspace` is an id or a path, `channel` what conversations are opened for, such as `slack` or `cron`, `user` the
    name of a principal, `job` why a turn runs, such as `heartbeat`, or a mark of its session, `session` the one at the
    top of a tree. What is said of channel and job holds for all sub-sessions. With `each`, every agent, user or other
    has the amount for itself.
    """

    tokens: Annotated[int, Meta(ge=0, le=10**15)] | None = None
    money: Annotated[float, Meta(ge=0, le=10**9)] | None = None
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "USD"
    workspace: str = ""
    agent: str = ""
    channel: str = ""
    user: str = ""
    job: str = ""
    session: str = ""
    each: Dimension | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.money is None):
            raise ValueError("a budget has either `tokens` or `money`; make two budgets to limit both")


class BudgetSettings(Struct, frozen=True, kw_only=True):
    """What may be spent a day."""

    budgets: Annotated[
        dict[str, Budget],
        Meta(
            description="Budgets by name: `tokens` or `money` (with `currency`) a day, for what `workspace`, `agent`,"
            " `channel`, `user`, `job` and `session` say, or for `each` of these."
        ),
    ] = {}
    timezone: Annotated[str, Meta(description="Whose midnight ends a day, such as Europe/Berlin.")] = "UTC"
    step_percent: Annotated[
        int, Meta(ge=0, le=1000, description="How much more of a reached budget an approval allows that day, at least.")
    ] = 20
    answer_tokens: Annotated[
        int, Meta(ge=1, le=1_000_000, description="The most that is set aside for the answer of one model call.")
    ] = 4096
    prices: Annotated[
        dict[str, Price],
        Meta(
            description="What a million tokens of a model cost, by `<provider>/<id>`: `currency`, `date`, `input`,"
            " `output`, `cache_read`, `cache_write`; goes before what the model's manifest says."
        ),
    ] = {}

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        for name in self.budgets:
            check_name(name)


def check_name(name: str) -> str:
    """Return the name of a budget. Raises `ValueError` for what cannot be one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name {name!r} of a budget must have 1 to 40 of a-z, 0-9, '_' and '-'")
    return name


SECTION = Section("budget", BudgetSettings, global_only=True)
