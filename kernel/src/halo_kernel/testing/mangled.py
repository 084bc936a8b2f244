"""JSON with one thing wrong in it, for those who must refuse it and say which."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast


def mangled(value: object, loose: Collection[str] = ()) -> Iterator[tuple[str, object]]:
    """Yield a JSON value with one field after the other of a wrong type, each with the field's dotted path.

    `loose` are the paths of fields that may be of any type, with all that is in them.
    """
    for path, wrong in _replaced(value, ()):
        dotted = ".".join(path)
        if not any(dotted == each or dotted.startswith(f"{each}.") for each in loose):
            yield dotted, wrong


def last_name(path: str) -> str:
    """Return the name of the innermost field of a dotted path; places in a list are none."""
    return next((each for each in reversed(path.split(".")) if not each.isdigit()), "")


def _replaced(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    if path:
        yield path, _wrong(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        for name, inner in fields.items():
            for where, wrong in _replaced(inner, (*path, name)):
                yield where, {**fields, name: wrong}
    elif isinstance(value, list):
        items = cast("list[object]", value)
        for at, inner in enumerate(items):
            for where, wrong in _replaced(inner, (*path, str(at))):
                yield where, [*items[:at], wrong, *items[at + 1 :]]


def _wrong(value: object) -> object:
    return 7 if isinstance(value, dict | list) else {"not": "this"}
