"""What a model asks for, checked: a tool's arguments are whatever the model wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from halo_kernel import BadInput

MOST_CENTS = 10**15
PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {
        "account": {"type": "string", "minLength": 1, "maxLength": 100, "description": "To whom."},
        "amount": {"type": "number", "exclusiveMinimum": 0, "description": "How much, with at most two decimals."},
        "note": {"type": "string", "maxLength": 500, "description": "What for."},
    },
    "required": ["account", "amount", "note"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True)
class Order:
    """A transfer that can be made."""

    account: str
    cents: int
    note: str

    @property
    def text(self) -> str:
        """Say it to people."""
        return f"{shown(self.cents)} to {self.account} ({self.note})"


def read_order(arguments: Mapping[str, object]) -> Order:
    """Return what the arguments of a call mean. Raises `BadInput` that names the first one that is wrong."""
    for name in sorted(arguments):
        if name not in ("account", "amount", "note"):
            raise BadInput(f"there is no argument {name}.", field=name)
    return Order(
        account=_text(arguments, "account", least=1, most=100),
        cents=_cents(arguments.get("amount")),
        note=_text(arguments, "note", least=0, most=500),
    )


def shown(cents: int) -> str:
    """Return cents as people write them."""
    return f"{cents // 100}.{cents % 100:02}"


def _text(arguments: Mapping[str, object], name: str, *, least: int, most: int) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not least <= len(value.strip()) <= most:
        raise BadInput(f"the argument {name} must be a text of {least} to {most} characters.", field=name)
    return value.strip()


def _cents(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput("the argument amount must be a number, such as 12.50.", field="amount")
    cents = Decimal(str(value)) * 100  # by its text: as a binary number 1.1 is a little more than 1.1
    if not (cents.is_finite() and 0 < cents <= MOST_CENTS and cents == cents.to_integral_value()):
        raise BadInput("the argument amount must be greater than 0, with at most two decimals.", field="amount")
    return int(cents)
