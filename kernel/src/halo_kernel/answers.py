"""What a hook's implementations may answer, read from the annotation of its specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import Union, cast, get_args, get_origin, get_type_hints

from . import contracts, errors, records

Spec = Callable[..., object]


class WrongAnswer(TypeError):
    """An answer of the wrong type."""


def spec_function(spec: Spec) -> FunctionType:
    """Return a hook specification as the free function that it is."""
    if not isinstance(spec, FunctionType):
        raise TypeError(f"{spec!r} is not a hook specification")
    return spec


@cache
def result_type(spec: Spec) -> object:
    """Return what implementations must answer; names of contracts, errors and records are known everywhere."""
    function = spec_function(spec)
    names = {**vars(contracts), **vars(errors), **vars(records), **function.__globals__}
    holder = SimpleNamespace(__annotations__={"return": function.__annotations__.get("return", object)})
    return get_type_hints(holder, names)["return"]


def is_collected(wanted: object) -> bool:
    """Tell whether a hook answers with any iterable of things, which is listed."""
    return get_origin(wanted) is Iterable


def checked(answer: object, wanted: object) -> object:
    """Return a hook's answer, an iterable as a list, or raise `WrongAnswer` that says what it should have been."""
    if not is_collected(wanted):
        if not matches(answer, wanted):
            raise WrongAnswer(_mismatch(answer, wanted))
        return answer
    if not _is_iterable(answer):
        raise WrongAnswer(_mismatch(answer, wanted))
    (item_type,) = get_args(wanted)
    items = list(cast("Iterable[object]", answer))
    for item in items:
        if not matches(item, item_type):
            raise WrongAnswer(_mismatch(item, item_type))
    return items


def _is_iterable(answer: object) -> bool:
    return isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping)


def matches(value: object, wanted: object) -> bool:
    """Tell whether a value is of a type: classes, unions, sequences, and protocols by their members."""
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return any(matches(value, each) for each in get_args(wanted))
    if wanted is None or wanted is NoneType:
        return value is None
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if isinstance(value, str | bytes) or not isinstance(value, origin):
            return False
        return all(matches(item, get_args(wanted)[0]) for item in cast("Iterable[object]", value))
    if _is_protocol(wanted):
        return all(hasattr(value, each) for each in _members(wanted))
    return not isinstance(wanted, type) or isinstance(value, wanted)


def _mismatch(answer: object, wanted: object) -> str:
    missing = [each for each in _members(wanted) if not hasattr(answer, each)] if _is_protocol(wanted) else []
    lack = f", it has no {', '.join(missing)}" if missing and answer is not None else ""
    return f"it answered with {type(answer).__name__}, not {_name(wanted)}{lack}"


def _name(wanted: object) -> str:
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(_name(each) for each in get_args(wanted))
    if get_args(wanted):
        return f"an iterable of {_name(get_args(wanted)[0])}"
    return "None" if wanted is NoneType else getattr(wanted, "__name__", str(wanted))


def _is_protocol(wanted: object) -> bool:
    return bool(getattr(wanted, "_is_protocol", False))


@cache
def _members(protocol: object) -> tuple[str, ...]:
    classes = [each for each in cast("type", protocol).__mro__ if _is_protocol(each)]
    names = {name for each in classes for name in (*vars(each), *vars(each).get("__annotations__", ()))}
    return tuple(sorted(name for name in names if not name.startswith("_")))
