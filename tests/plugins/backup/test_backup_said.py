"""What a backup says on the way: how far it is, what is left, and that it was stopped."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_backup import passphrase
from halo_backup.meter import Meter, far, size
from halo_kernel import BadInput


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.floats(0, 10**6))
def test_how_far_it_is(done: int, total: int, seconds: float) -> None:
    """Whatever the figures are it says something, and an estimate only from a rate that is known."""
    text = far(min(done, total), total, seconds)
    assert text
    assert ("left" in text) == (seconds >= 1 and 0 < min(done, total) < total)


def test_sizes_and_estimates_for_people() -> None:
    """Sizes have a unit, and the rest takes as long as its part of what was done."""
    assert (size(0), size(999), size(1500), size(2_000_000)) == ("0 bytes", "999 bytes", "1.5 kB", "2.0 MB")
    assert far(250, 1000, 5.0) == "25 % of 1.0 kB, about 15 s left"


def test_a_line_every_ten_seconds_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe there is one plain line each ten seconds, on a terminal one that goes in the end."""
    now = [100.0]
    plain = Meter(on_screen=False, clock=lambda: now[0])
    for second in range(35):
        now[0] = 100.0 + second
        plain.tell("Copying", second, 100)
    plain.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith("Copying: ") and "\r" not in line for line in lines)
    now[0] = 100.0
    screen = Meter(on_screen=True, clock=lambda: now[0])
    for _ in range(12):
        now[0] += 0.25
        screen.tell("Copying", 1, 100)
    screen.close()
    text = capsys.readouterr().err
    assert text.count("Copying") == 5 and text.endswith("\r") and "\n" not in text


def test_where_a_passphrase_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment, or a file that it names, never both; a new one has at least eight characters."""
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115 - no terminal
    with pytest.raises(BadInput, match="take a passphrase"):
        passphrase.passphrase(new=False)
    monkeypatch.setenv("HALO_BACKUP_PASSPHRASE", "short")
    assert passphrase.passphrase(new=False) == "short"
    with pytest.raises(BadInput, match="at least 8"):
        passphrase.passphrase(new=True)
    monkeypatch.setenv("HALO_BACKUP_PASSPHRASE_FILE", str(tmp_path / "nothing"))
    with pytest.raises(BadInput, match="both set"):
        passphrase.passphrase(new=False)
    monkeypatch.delenv("HALO_BACKUP_PASSPHRASE")
    with pytest.raises(BadInput, match="cannot be read"):
        passphrase.passphrase(new=False)


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C on a terminal stops a create in the middle with 130: no file, no folder of its own, and the home works."""
    home, folder = tmp_path / "home", tmp_path / "w"
    env = {**os.environ, "HALO_HOME": str(home), "HALO_PLUGINS": "backup"}
    (home / "global" / "large").mkdir(parents=True)
    for number in range(3000):
        (home / "global" / "large" / f"{number}").write_bytes(os.urandom(30_000))
    folder.mkdir()
    words = [sys.executable, "-m", "halo_kernel", "backup", "create", str(folder / "one.backup")]
    main, side = pty.openpty()
    process = subprocess.Popen(words, env=env, stdin=side, stdout=side, stderr=side, start_new_session=True)
    os.close(side)
    deadline = time.monotonic() + 60
    while not list(folder.glob(".halo-*/backup")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    os.close(main)
    assert list(folder.iterdir()) == []
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["one.backup"]
