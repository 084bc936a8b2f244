"""Whether a figure rises with time: a slope that neither peaks nor a sawtooth bend, and the rise that is a leak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

POINTS = 300  # at most, since their pairs are looked at


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the median of the slopes between any two points (Theil-Sen), in units a second."""
    step = -(-len(times) // POINTS)
    points = list(zip(times, values, strict=True))[::step]
    return median((after[1] - before[1]) / (after[0] - before[0]) for before, after in combinations(points, 2))


@dataclass(frozen=True, kw_only=True)
class Line:
    """A figure over time; one that rises by more than `limit` in the `seconds` of a run is a leak."""

    name: str
    times: Sequence[float]
    values: Sequence[float]
    seconds: float
    limit: float

    @property
    def rise(self) -> float:
        """What its slope makes of a run."""
        return slope(self.times, self.values) * self.seconds

    @property
    def leaks(self) -> bool:
        return self.rise > self.limit

    @property
    def row(self) -> str:
        """The line as people read it: its first and last tenth, its highest point, its slope."""
        part = max(1, len(self.values) // 10)
        first, last = median(self.values[:part]), median(self.values[-part:])
        hourly = self.rise / self.seconds * 3600
        shown = (first, last, max(self.values), hourly, self.rise, self.limit)
        cells = "".join(f" {value:9.1f} |" for value in shown)
        return f"| {self.name:22} |{cells} {'LEAK' if self.leaks else ''}".rstrip()


HEAD = f"| {'':22} |" + "".join(f" {name:>9} |" for name in ("first", "last", "highest", "an hour", "a run", "limit"))
