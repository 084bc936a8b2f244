"""Tables: a figure, its floor in the same run, what lies between them, and their ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .machine import load_average


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line."""

    name: str
    figure: float
    floor: float
    unit: str

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Figure, floor, difference and ratio, as they are printed."""
        between = self._written(self.figure - self.floor, sign="+")
        ratio = f"{self.figure / self.floor:.2f}" if self.floor else "-"
        return self._written(self.figure), self._written(self.floor), between, ratio

    def _written(self, value: float, sign: str = "") -> str:
        digits = 1 if abs(value) < 100 else 0
        return f"{value:{sign}.{digits}f} {self.unit}"


def print_title(title: str) -> None:
    """Print what the tables below it are about, and how busy the machine is at that moment."""
    print(f"\n{title} ({load_average()})", flush=True)


def print_table(floor: str, rows: Sequence[Row]) -> None:
    """Print rows under a head that says what their floor is."""
    print(f"  floor: {floor}")
    print(f"  {'':44}{'halo':>13}{'floor':>13}{'between':>13}{'ratio':>8}")
    for row in rows:
        figure, under, added, ratio = row.cells
        print(f"  {row.name:44}{figure:>13}{under:>13}{added:>13}{ratio:>8}", flush=True)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the values that at least `share` of them do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * share) - 1, 0)]
