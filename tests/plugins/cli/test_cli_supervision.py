"""What is written down about a supervisor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from halo_cli import status
from halo_cli.supervision import (
    Supervision,
    clear,
    is_supervised,
    is_told_to_stop,
    mark_stop,
    read_supervision,
    take_over,
    write_supervision,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "global").mkdir()
    return tmp_path


def test_there_is_one_supervisor_for_as_long_as_it_lives(home: Path) -> None:
    """The lock is one process's, or that of whom it was handed to, and goes with it, however it ends."""
    assert not is_supervised(home)
    lock = take_over(home)
    assert lock is not None
    assert is_supervised(home)
    assert take_over(home) is None
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    heir = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(lock,))
    assert heir.stdin is not None and heir.stdout is not None and heir.stdout.readline()
    os.close(lock)
    assert is_supervised(home)
    heir.kill()
    heir.wait()
    heir.stdin.close()
    heir.stdout.close()
    assert not is_supervised(home)


def test_what_a_dead_one_left_goes_and_a_living_one_s_stays(home: Path) -> None:
    """The next supervisor, and `clear`, remove what one that was killed left; never what is a living one's."""
    record = Supervision(pid=7, server=8, reason="crashed")
    for _ in range(2):
        lock = take_over(home)
        assert lock is not None
        assert (read_supervision(home), is_told_to_stop(home, record)) == (None, False)
        write_supervision(home, record)
        mark_stop(home, 8)
        clear(home)
        assert (read_supervision(home), is_told_to_stop(home, record)) == (record, True)
        os.close(lock)
    clear(home)
    assert (read_supervision(home), is_told_to_stop(home, record)) == (None, False)
    assert sorted(path.name for path in (home / "global").iterdir()) == ["supervisor.lock"]


def test_a_marker_holds_for_whom_it_names(home: Path) -> None:
    """It stops the supervisor it was written for, and the one whose last server it names; no other."""
    write_supervision(home, Supervision(pid=7, server=8))
    mark_stop(home, 8)
    assert is_told_to_stop(home, Supervision(pid=7, server=9))
    assert is_told_to_stop(home, Supervision(pid=6, server=8))
    assert not is_told_to_stop(home, Supervision(pid=6, server=9))
    clear(home)
    mark_stop(home, 0)  # nobody has written anything down yet
    assert not is_told_to_stop(home, Supervision(pid=6))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1, "more": 2}', "\x00"])
def test_a_broken_file_is_none(home: Path, text: str) -> None:
    """A record or a marker that is not one stops nothing and is no error."""
    (home / "global" / "supervisor.json").write_text(text)
    (home / "global" / "server.stop").write_text(text)
    assert read_supervision(home) is None
    assert not is_told_to_stop(home, Supervision(pid=1, server=2))


def test_status_tells_of_a_server_that_was_killed_with_its_supervisor(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When both are gone without having been stopped, `status` says so, and how to go on."""
    monkeypatch.setenv("HALO_HOME", str(home))
    write_supervision(home, Supervision(pid=7, server=8))
    assert status.command([]) == 1
    assert "Its supervisor has ended too. Start it with `halo up -d`." in capsys.readouterr().err
