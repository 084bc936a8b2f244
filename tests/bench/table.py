"""Tables: a figure, its floor in the same run, what lies between them, and their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .machine import load_average


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line. `added` is the difference when it was measured by itself, pair by pair."""

    name: str
    figure: float
    floor: float
    unit: str
    added: float | None = None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Figure, floor, difference and ratio, as they are printed."""
        added = self.figure - self.floor if self.added is None else self.added
        ratio = f"{self.figure / self.floor:.2f}" if self.floor else "-"
        return self._written(self.figure), self._written(self.floor), self._written(added, sign="+"), ratio

    def _written(self, value: float, sign: str = "") -> str:
        digits = 1 if abs(value) < 100 else 0
        return f"{value:{sign}.{digits}f} {self.unit}"


def print_table(title: str, rows: Sequence[Row], *, floor: str) -> None:
    """Print the rows under a head that says what the floor is and how busy the machine was at that moment."""
    print(f"\n{title} ({load_average()})\n  floor: {floor}", flush=True)
    print(f"  {'':46}{'halo':>13}{'floor':>13}{'between':>13}{'ratio':>8}")
    for row in rows:
        figure, under, added, ratio = row.cells
        print(f"  {row.name:46}{figure:>13}{under:>13}{added:>13}{ratio:>8}", flush=True)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
