"""What a hook's implementations may answer, read from the annotation of its specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from types import NoneType, SimpleNamespace
from typing import Any, cast, get_args, get_origin, get_type_hints

from . import contracts, errors, records

Spec = Callable[..., object]


class WrongAnswer(TypeError):
    """An answer of the wrong type, or none; says so in a sentence."""


@cache
def result_type(spec: Spec) -> object:
    """Return what implementations must answer; names of contracts, errors and records are known everywhere."""
    names = {**vars(contracts), **vars(errors), **vars(records), **getattr(spec, "__globals__", {})}
    holder = SimpleNamespace(__annotations__={"return": spec.__annotations__["return"]})
    return get_type_hints(holder, names)["return"]


def checked(answer: object, wanted: Any) -> object:
    """Return a hook's answer, an iterable as a list, or raise `WrongAnswer` that says what it should have been."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if not hasattr(answer, "__iter__") or type(answer) in (str, bytes, dict):
            raise WrongAnswer(f"it answered with {type(answer).__name__}, not an iterable of {_name(inner[0])}")
        return [checked(each, inner[0]) for each in cast("Iterable[object]", answer)]
    kinds = inner or (wanted,)
    if not any(_is(answer, kind) for kind in kinds):
        missing = [each for each in _members(kinds[0]) if not hasattr(answer, each)]
        lack = f", it has no {', '.join(missing)}" if missing else ""
        raise WrongAnswer(f"it answered with {type(answer).__name__}, not {' or '.join(map(_name, kinds))}{lack}")
    return answer


def _is(value: object, kind: type) -> bool:
    members = _members(kind)
    return all(hasattr(value, each) for each in members) if members else isinstance(value, kind)


@cache
def _members(kind: type) -> tuple[str, ...]:
    """Return the public members that a protocol asks for."""
    protocols = [each for each in kind.__mro__ if getattr(each, "_is_protocol", False)]
    names = {name for each in protocols for name in (*vars(each), *vars(each).get("__annotations__", ()))}
    return tuple(sorted(name for name in names if not name.startswith("_")))


def _name(kind: type) -> str:
    return "None" if kind is NoneType else kind.__name__
