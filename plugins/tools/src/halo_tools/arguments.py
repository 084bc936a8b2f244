"""Arguments of a tool: one struct a tool is its JSON Schema and the check of what a model gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from halo_kernel import BadInput

A = TypeVar("A", bound=msgspec.Struct)
_PLACE = re.compile(r"(?P<rule>.*?) - at `\$\.?(?P<field>[^`]*)`", re.DOTALL)
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")
_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`")


def schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema object that a model sees."""
    found: dict[str, Any] = dict(msgspec.json.schema(arguments)["$defs"][arguments.__name__])
    found.pop("title", None)
    found.pop("description", None)
    return found


def decode(given: Mapping[str, object], arguments: type[A]) -> A:
    """Return the checked arguments; null counts as not given, and a number in quotes as a number.

    Raises `BadInput` that names the argument and the rule.
    """
    try:
        return msgspec.convert(
            {name: value for name, value in given.items() if value is not None}, arguments, strict=False
        )
    except msgspec.ValidationError as error:
        raise _explain(str(error), arguments) from error


def _explain(message: str, arguments: type[msgspec.Struct]) -> BadInput:
    if missing := _MISSING.search(message):
        return BadInput(f"the argument {missing['field']} is required.", field=missing["field"])
    if unknown := _UNKNOWN.search(message):
        names = ", ".join(arguments.__struct_fields__)
        return BadInput(f"there is no argument {unknown['field']}; there are {names}.", field=unknown["field"])
    if place := _PLACE.fullmatch(message):
        return BadInput(f"the argument {place['field']} is wrong: {place['rule']}.", field=place["field"])
    return BadInput(f"the arguments are wrong: {message}.")
