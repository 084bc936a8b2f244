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


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_doubled_by_rotation(path: Path, seed: int) -> None:
    """Read at any moments while a real handler rotates, some times at once, every line comes once and in order."""
    draw = random.Random(seed)
    handler = RotatingFileHandler(path, maxBytes=400, backupCount=9)
    log, seen, number = GrowingLog(path), list[str](), 0
    for _ in range(200):
        for _ in range(draw.choice([1, 12, 60])):
            handler.emit(
                logging.LogRecord("x", logging.INFO, "", 0, f"line {number} {'.' * draw.randrange(30)}", (), None)
            )
            number += 1
        seen += [line.split(" .")[0].strip() for line in log.more()]
    handler.close()
    assert seen == [f"line {each}" for each in range(number)]


def test_a_reader_that_slept_too_long_goes_on_with_the_oldest_file(path: Path) -> None:
    """When its file has been deleted by rotation, what is left comes once and in order."""
    path.write_text("read\n")
    log = GrowingLog(path)
    assert list(log.more()) == ["read"]
    with path.open("a") as file:
        file.write("written to it later\n")
    path.unlink()
    for name, text in ((".2", "oldest\n"), (".1", "older\nbroken off"), ("", "newest\n")):
        path.with_name(path.name + name).write_text(text)
    assert list(log.more()) == ["written to it later", "oldest", "older", "broken off", "newest"]
    assert list(log.more()) == []


def test_a_rotation_at_any_moment_between_two_looks_changes_nothing(path: Path) -> None:
    """Each rename of a rotation by itself, and the moment without a newest file, leave the order as it is."""
    files = [path, *(path.with_name(f"{path.name}.{number}") for number in (1, 2, 3))]
    path.write_text("0\n")
    log, seen = GrowingLog(path), list[str]()
    for round in range(1, 6):
        for old, new in ((2, 3), (1, 2), (0, 1)):
            if files[old].exists():
                files[old].replace(files[new])
            seen += log.more()
        path.write_text(f"{round}\n")
    seen += log.more()
    assert seen == [str(each) for each in range(6)]
