"""Whether, and when, a server that has ended is started again."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_cli.respawn import FIRST_PAUSE, LIMIT, WINDOW, describe, is_crash, next_pause


@pytest.mark.parametrize(("code", "crash"), [(0, False), (143, False), (130, False), (1, True), (2, True), (137, True)])
def test_an_end_that_was_asked_for_is_no_crash(code: int, crash: bool) -> None:
    """0 and the codes by which shells tell of SIGTERM and SIGINT are ends that somebody wanted."""
    assert is_crash(code) == crash


@pytest.mark.parametrize("number", [number for number in signal.Signals if number not in (signal.SIGSTOP,)])
def test_only_two_signals_ask_for_the_end(number: signal.Signals) -> None:
    """A process that a signal killed crashed, unless it was SIGTERM or SIGINT; the signal is named."""
    assert is_crash(-number) == (number not in (signal.SIGTERM, signal.SIGINT))
    assert describe(-number) == f"was killed by {number.name}"


def test_codes_are_those_of_real_processes() -> None:
    """What `Popen` says of a killed and of a failed process is understood."""
    for code, words in (("os.kill(os.getpid(), 9)", "was killed by SIGKILL"), ("exit(3)", "ended with exit code 3")):
        assert describe(subprocess.call([sys.executable, "-c", f"import os; {code}"])) == words
    assert describe(-250) == "was killed by signal 250"


@given(st.lists(st.floats(0, 120), max_size=40))
def test_there_are_never_more_than_five_restarts_in_five_minutes(lives: list[float]) -> None:
    """However long each server lives, no five minutes hold six restarts; each pause is twice the one before."""
    now, restarts, pauses = 0.0, list[float](), list[float]()
    for life in lives:
        now += life
        pause = next_pause(restarts, now)
        if pause is None:
            recent = [at for at in restarts if now - at < WINDOW]
            assert len(recent) == LIMIT
            break
        now += pause
        restarts.append(now)
        pauses.append(pause)
    assert all(sum(at - WINDOW < other <= at for other in restarts) <= LIMIT for at in restarts)
    assert pauses[:LIMIT] == [FIRST_PAUSE * 2**number for number in range(min(len(pauses), LIMIT))] or now > WINDOW


@given(st.floats(0, 1e6), st.integers(0, 30))
def test_old_restarts_are_forgiven(now: float, count: int) -> None:
    """A server that crashes less often than that is started again for ever, without delay."""
    assert next_pause([now - WINDOW - each for each in range(count)], now) == FIRST_PAUSE
