"""Logs: lines a person or a program can read, a file that rotates, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from halo_kernel import LogSettings, Secret
from halo_kernel.log import configure, logger, reset
from halo_kernel.secrets import Redactor

KEY = Secret('k"ey-of-acme', "acme.api_key")


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Give the root logger back as it was."""
    root, halo = logging.getLogger(), logging.getLogger("halo")
    levels = root.level, halo.level
    yield
    reset()
    root.setLevel(levels[0])
    halo.setLevel(levels[1])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def lines(settings: LogSettings, stream: io.StringIO | None = None) -> io.StringIO:
    stream = stream or io.StringIO()
    configure(settings, stream=stream, redactor=Redactor([KEY]))
    return stream


def test_a_pipe_gets_one_json_object_a_line() -> None:
    """`auto` writes JSON where no person looks: time, level, module, message and the fields."""
    stream = lines(LogSettings(level="info"))
    logger("turns").info("turn\nended", turn="t1", steps=3)
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {"level": "info", "module": "turns", "message": "turn\nended", "turn": "t1", "steps": 3}


def test_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` writes text on a terminal, without colours where `NO_COLOR` is set."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = lines(LogSettings(), Terminal())
    logger("turns").warning("slow", seconds=3)
    assert "slow" in stream.getvalue()
    assert "seconds=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_text_is_one_line_a_record() -> None:
    """Text is `time=… level=… [module] message key=value`, and a line break in a message breaks no line."""
    stream = lines(LogSettings(format="text"))
    logger("http").warning("a\nb", path="/x y", method="GET")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("time=20")
    assert line.endswith("level=warn [http] a\\nb path='/x y' method=GET")


@pytest.mark.parametrize(("level", "expected"), [("debug", "diwe"), ("info", "iwe"), ("warn", "we"), ("error", "e")])
def test_the_level_gates(level: str, expected: str) -> None:
    """Lines below the level are not written."""
    stream = lines(LogSettings(level=level, format="text"))  # type: ignore[arg-type]
    log = logger("x")
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert "".join(line.split("[x] ")[1] for line in stream.getvalue().splitlines()) == expected


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_holds_a_secret(form: str) -> None:
    """Not as a field, in a message, in a traceback, in another library's line, or in a URL."""
    stream = lines(LogSettings(format=form))  # type: ignore[arg-type]
    log = logger("x")
    log.warning(f"key {KEY.reveal()}", field=KEY.reveal(), handle=KEY, inner={"a": [KEY.reveal()]})
    try:
        raise ValueError(f"bad {KEY.reveal()}")
    except ValueError:
        log.exception("failed")
    logging.getLogger("acme").warning("GET /x?token=abcdefgh&y=1 %s", KEY.reveal())
    logging.getLogger("acme").warning("Authorization: Bearer abcdefgh")
    text = stream.getvalue()
    assert "ey-of-acme" not in text
    assert "abcdefgh" not in text
    assert text.count("<secret acme.api_key>") >= 6
    assert "token=***&y=1" in text
    assert "ValueError: bad" in text


def test_a_secret_that_is_set_later_is_masked_at_once() -> None:
    """The log follows what its redactor learns."""
    redactor, stream = Redactor(), io.StringIO()
    configure(LogSettings(), stream=stream, redactor=redactor)
    redactor.learn("settings", [KEY])
    logger("x").warning(KEY.reveal())
    assert KEY.reveal() not in stream.getvalue()


def test_other_libraries_are_logged_from_warning_on() -> None:
    """A library's warnings are in the log in our form, its chatter is not."""
    stream = lines(LogSettings(level="info"))
    logging.getLogger("acme.http").info("chatter")
    logging.getLogger("acme.http").warning("odd %d", 3)
    (found,) = map(json.loads, stream.getvalue().splitlines())
    assert (found["module"], found["message"]) == ("acme.http", "odd 3")


def test_context_is_part_of_a_line() -> None:
    """What is bound to the task, such as a session, is in each of its lines."""
    stream = lines(LogSettings())
    with structlog.contextvars.bound_contextvars(session="s1"):
        logger("x").warning("a")
    assert json.loads(stream.getvalue())["session"] == "s1"


def test_the_server_s_file_rotates_and_is_private(tmp_path: Path) -> None:
    """`server.log` is 0600, is rotated at its size, and keeps as many old files as the setting says."""
    file = tmp_path / "server.log"
    configure(LogSettings(max_file_size=1024, max_files=2), file=file, stream=io.StringIO(), redactor=Redactor())
    for number in range(60):
        logger("x").warning("line", number=number)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["server.log", "server.log.1", "server.log.2"]
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in tmp_path.iterdir())
    assert all(each.stat().st_size <= 1024 for each in tmp_path.iterdir())
    assert "number=59" in file.read_text().splitlines()[-1]


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """When the file fails, stderr still has the line, and there is no noise about it."""
    stream = io.StringIO()
    configure(LogSettings(format="text"), file=tmp_path / "gone" / "server.log", stream=stream, redactor=Redactor())
    logger("x").warning("still here")
    assert "still here" in stream.getvalue()
    assert capfd.readouterr() == ("", "")


def test_configuring_again_replaces(tmp_path: Path) -> None:
    """A second configuration writes each line once."""
    first, second = io.StringIO(), io.StringIO()
    configure(LogSettings(), stream=first, redactor=Redactor())
    configure(LogSettings(), stream=second, redactor=Redactor())
    logger("x").warning("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_without_configuration_nothing_goes_to_stdout() -> None:
    """A program that embeds the kernel keeps its standard output, and sees warnings on stderr."""
    code = "from halo_kernel.log import logger; logger('x').info('no'); logger('x').warning('yes')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert run.stdout == ""
    assert "yes" in run.stderr
    assert "no'" not in run.stderr
