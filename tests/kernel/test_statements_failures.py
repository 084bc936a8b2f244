"""Model calls that fail: how long the kernel waits, how often it asks, and what it does not ask again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from halo_kernel import Incoming, ModelErrorKind, ModelRequest
from halo_kernel.testing import Fail, ScriptedModel, Step, VirtualClock, a_session, running_kernel


async def waits(folder: Path, step: Step, *, attempts: int | None = None) -> list[float]:
    """Return the seconds between the attempts of a call that fails as `step` each time."""
    folder.mkdir(exist_ok=True)
    clock, asked = VirtualClock(), list[float]()

    def respond(request: ModelRequest) -> Step:
        asked.append(clock.monotonic())
        return step

    env = {} if attempts is None else {"HALO_AGENT_MAX_RETRIES": str(attempts)}
    model = ScriptedModel(responder=respond)
    async with running_kernel(folder / "home", model=model, clock=clock, env=env) as kernel:
        session = await a_session(kernel, folder / "w")
        result = await session.prompt(Incoming(text="go")).result
        assert result.outcome == "failed"
    return [after - before for before, after in pairwise(asked)]


@pytest.mark.parametrize(
    ("kind", "first", "jitter"),
    [("throttle", 2, 1), ("server", 2, 1), ("network", 1, 0.5), ("timeout", 1, 0.5), ("empty", 1, 0.5)],
)
async def test_how_long_a_failed_call_waits(tmp_path: Path, kind: ModelErrorKind, first: int, jitter: float) -> None:
    """33: a busy server is waited for 2 s, a connection 1 s, doubled each time and never over a minute, five times."""
    for attempts in (None, 9):
        found = await waits(tmp_path / str(attempts), Fail(kind, retry_after=None), attempts=attempts)
        assert len(found) == (attempts or 5) - 1
        for number, wait in enumerate(found):
            least = min(first * 2.0**number, 60)
            assert least - 0.01 <= wait <= least + jitter + 0.01, (number, wait)


@pytest.mark.parametrize(("asked", "waited"), [(7.0, 7.0), (0.5, 0.5), (3600.0, 60.0)])
async def test_a_server_says_how_long_to_wait(tmp_path: Path, asked: float, waited: float) -> None:
    """33: what a server asks for goes before our own wait, up to a minute."""
    found = await waits(tmp_path, Fail("throttle", retry_after=asked))
    assert found == pytest.approx([waited] * 4, abs=0.01)


@pytest.mark.parametrize("kind", ["account", "refused", "overflow"])
async def test_what_no_wait_mends_is_not_asked_again(tmp_path: Path, kind: ModelErrorKind) -> None:
    """32: a refused key, a wrong request and one that stays too long fail at once."""
    assert await waits(tmp_path, Fail(kind, retry_after=None)) == []
