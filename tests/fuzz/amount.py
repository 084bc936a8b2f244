"""How much is tried: some examples, the same in every run; `HALO_FUZZ_TIMES` as many times more, new ones each time."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

TIMES = int(os.environ.get("HALO_FUZZ_TIMES", "1"))
SECONDS = 120 * TIMES  # for one test, before it counts as stuck

_PHASES = {"phases": (Phase.explicit, Phase.generate, Phase.shrink)}


def amount(examples: int, **more: object) -> settings:
    """Return settings for about so many examples."""
    return settings(
        max_examples=examples * TIMES,
        derandomize=TIMES == 1,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        **{**_PHASES, **more},  # type: ignore[arg-type]
    )
