"""Reading JSON that may hold anything: a missing or wrong value reads as nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast


def mapping(value: object) -> Mapping[str, object]:
    """Return `value` if it is a JSON object, else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """Return `value` if it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def text(value: object) -> str:
    """Return `value` if it is a string, the joined text parts if it is a list of parts, else an empty string."""
    if isinstance(value, str):
        return value
    parts = (mapping(part).get("text") for part in items(value))
    return "".join(part for part in parts if isinstance(part, str))


def number(value: object) -> int:
    """Return `value` as a count: an int, or a float's whole part; anything else or below zero is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        return 0
    return max(0, int(value))
