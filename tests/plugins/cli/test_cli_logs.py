"""`halo logs`: the last lines, and what follows, across rotations."""

from __future__ import annotations

import logging
import random
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from halo_cli.logs import GrowingLog, command


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the server's log is."""
    monkeypatch.setenv("HALO_HOME", str(tmp_path))
    folder = tmp_path / "global" / "logs"
    folder.mkdir(parents=True)
    return folder / "server.log"


def test_the_last_lines_are_printed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-n` says how many, 50 by default; more than there are is all; bytes that are no text do not stop it."""
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(60)) + b"\xff\xfe broken\n")
    for arguments, first, count in ([], "line 11", 50), (["-n", "2"], "line 59", 2), (["-n", "999"], "line 0", 61):
        assert command(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert (lines[0], len(lines)) == (first, count)
        assert lines[-1].endswith(" broken")
    assert command(["-n", "0"]) == 0
    assert capsys.readouterr().out == ""


def test_a_log_that_is_not_there_is_said_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a log there is one line on stderr and the exit code 1."""
    assert command([]) == 1
    told = capsys.readouterr()
    assert told.out == "" and str(path) in told.err


@pytest.mark.parametrize("wrong", ["-1", "many", "1.5", ""])
def test_a_number_that_is_none_is_wrong_usage(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`-n` takes a whole number from 0 only."""
    with pytest.raises(SystemExit, match="2"):
        command([f"--lines={wrong}"])
    assert "not a number of lines" in capsys.readouterr().err


def test_what_follows_is_read_once(path: Path) -> None:
    """Each line comes once, when it is whole; a log that begins later is read from its beginning."""
    log = GrowingLog(path)
    assert list(log.more()) == []
    path.write_text("one\ntwo\nthr")
    assert list(log.tail(1)) == ["two"]
    with path.open("a") as file:
        file.write("ee\nfour\n")
    assert list(log.more()) == ["three", "four"]
    assert list(log.more()) == []


def test_a_log_that_was_emptied_is_begun_anew(path: Path) -> None:
    """A file that became shorter is read from its beginning."""
    path.write_text("a first line that is long\n")
    log = GrowingLog(path)
    assert list(log.more()) == ["a first line that is long"]
    path.write_text("short\n")
    assert list(log.more()) == ["short"]


def test_nothing_is_lost_or_doubled_by_rotation(path: Path) -> None:
    """Read at any moments while a real handler rotates, every line comes exactly once and in order."""
    draw = random.Random(4)
    handler = RotatingFileHandler(path, maxBytes=400, backupCount=2)
    log, seen, number = GrowingLog(path), list[str](), 0
    for _ in range(200):
        for _ in range(draw.randrange(12)):
            handler.emit(
                logging.LogRecord("x", logging.INFO, "", 0, f"line {number} {'.' * draw.randrange(30)}", (), None)
            )
            number += 1
        seen += [line.split(" .")[0].strip() for line in log.more()]
    handler.close()
    assert seen == [f"line {each}" for each in range(number)]
