"""What counts as a leak."""

from __future__ import annotations

import random

import pytest

from .slopes import Line

TIMES = [float(second) for second in range(600)]


def line(values: list[float]) -> Line:
    return Line(name="memory", times=TIMES, values=values, seconds=1800, limit=24)


@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_a_steady_rise_is_a_leak(noise: float) -> None:
    """A rise above the limit is found, also below noise and when it is small beside what is there."""
    rnd = random.Random(1)
    values = [200 + at * 25 / 1800 + rnd.uniform(-noise, noise) for at in TIMES]
    assert line(values).rise == pytest.approx(25, abs=noise)
    assert line([value + at * 5 / 1800 for at, value in zip(TIMES, values, strict=True)]).leaks


@pytest.mark.parametrize(
    "values",
    [
        [200.0] * 600,
        [at % 50 for at in TIMES],
        [200 + 100 * (at > 550) for at in TIMES],
        [200 - at for at in TIMES],
    ],
    ids=["level", "a sawtooth", "a peak at the end", "a fall"],
)
def test_what_is_no_leak(values: list[float]) -> None:
    """What goes up and down, a peak and a fall are none."""
    assert not line(values).leaks
    assert "LEAK" not in line(values).row
