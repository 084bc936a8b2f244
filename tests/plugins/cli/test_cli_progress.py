"""Saying what takes long."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest

from halo_cli import progress
from halo_cli.progress import waiting


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds pass faster."""
    monkeypatch.setattr(progress, "_PATIENCE", 0.05)
    monkeypatch.setattr(progress, "_ON_SCREEN", 0.05)
    monkeypatch.setattr(progress, "_IN_PIPE", 0.05)


def tellers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "halo.progress"]


def test_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written about what ends in time, on a terminal or elsewhere, and nothing stays behind."""
    for stream in (Screen(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with waiting("Working"):
            pass
        assert (stream.getvalue(), tellers()) == ("", [])


def test_a_terminal_has_one_line_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the line is rewritten, and blank in the end, however the work ends."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(ZeroDivisionError), waiting("Working \x1b"):
        time.sleep(0.2)
        raise ZeroDivisionError
    _, *lines, blank, rest = screen.getvalue().split("\r")
    assert len(lines) >= 2 and set(lines) == {"Working \\x1b … 0 s"}
    assert (blank, rest) == (" " * len(lines[0]), "")
    assert tellers() == []


def test_a_pipe_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere each is a line of its own, unless none is wanted there."""
    for wanted in (True, False):
        pipe = io.StringIO()
        monkeypatch.setattr(sys, "stderr", pipe)
        with waiting("Working", in_pipe=wanted):
            time.sleep(0.2)
        lines = pipe.getvalue().splitlines()
        assert (len(lines) >= 2 and set(lines) == {"Working … 0 s"}) if wanted else lines == []
    assert tellers() == []


def test_a_reader_that_has_gone_disturbs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work goes on when nobody can be told of it."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    for stream in (Gone(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        with waiting("Working"):
            time.sleep(0.12)
