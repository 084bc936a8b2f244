"""YAML with the line of every key."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from halo_kernel import BadFile

_MAPPING = "tag:yaml.org,2002:map"
_LONGEST = 64_000
_DEEPEST = 50
_MOST_VALUES = 20_000
_SEQUENCE = "tag:yaml.org,2002:seq"


@dataclass(frozen=True)
class Lined:
    """Where a value stands: its line from 1, the keys of a mapping with their own lines, the items of a list."""

    line: int = 1
    keys: Mapping[str, tuple[int, Lined]] = field(default_factory=dict[str, tuple[int, "Lined"]])
    items: tuple[Lined, ...] = ()

    def find(self, path: Sequence[str | int]) -> int:
        """Return the line of the deepest key or item on the way that is there."""
        if not path:
            return self.line
        step, rest = path[0], path[1:]
        if isinstance(step, int):
            return self.items[step].find(rest) if step < len(self.items) else self.line
        if step not in self.keys:
            return self.line
        line, value = self.keys[step]
        return value.find(rest) if rest else line


def read_yaml(text: str, path: str) -> tuple[object, Lined]:
    """Return a document's value, keys without a value left out, and its lines. Raises `BadFile`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    _check_size(text, path)
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        budget = itertools.count(1)
        return _without_nulls(yaml.load(text), budget), _lined(yaml.compose(text), budget)
    except MarkedYAMLError as error:
        fault: Any = error
        mark = fault.problem_mark or fault.context_mark
        line = int(mark.line) + 1 if mark else 0
        raise BadFile(f"{path}, line {line}: not YAML: {fault.problem}", path=path, line=line) from None
    except (YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:  # of tags, too
        raise BadFile(f"{path}: not YAML: {str(error).partition(chr(10))[0]}", path=path) from None
    except (RecursionError, OverflowError):
        raise BadFile(f"{path} is nested too deeply or holds too much", path=path) from None


def _check_size(text: str, path: str) -> None:
    """Refuse what the parser would spend seconds on (shown: five for 5,000 open brackets)."""
    if len(text) > _LONGEST:
        raise BadFile(f"{path} is longer than {_LONGEST} characters", path=path)
    steps = ((char in "[{") - (char in "]}") for char in text)
    if max(itertools.accumulate(steps, initial=0)) > _DEEPEST:
        raise BadFile(f"{path} is nested too deeply", path=path)


def _spend(budget: Iterator[int]) -> None:
    """Stop at a document that aliases blow up: ten lines of them can stand for a billion values."""
    if next(budget) > _MOST_VALUES:
        raise OverflowError


def _without_nulls(value: object, budget: Iterator[int]) -> object:
    _spend(budget)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {str(key): _without_nulls(item, budget) for key, item in pairs if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item, budget) for item in cast("list[object]", value)]
    return value


def _lined(node: Any, budget: Iterator[int]) -> Lined:
    _spend(budget)
    if node is None:
        return Lined()
    line = int(node.start_mark.line) + 1
    if node.tag == _MAPPING:
        keys = {str(key.value): (int(key.start_mark.line) + 1, _lined(value, budget)) for key, value in node.value}
        return Lined(line, keys)
    return Lined(line, items=tuple(_lined(item, budget) for item in node.value) if node.tag == _SEQUENCE else ())
