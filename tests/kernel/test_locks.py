"""Lock files, within one process: who opens one twice is two."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from halo_kernel.locks import is_locked, locked

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no locks elsewhere")


def test_one_has_it_alone(tmp_path: Path) -> None:
    """Who has a lock alone keeps everybody else out until the end, and the file stays for the next one."""
    path = tmp_path / "lock"
    with locked(path):
        assert is_locked(path)
        for shared in (False, True):
            with pytest.raises(BlockingIOError), locked(path, shared=shared, patience=0):
                pass
    assert not is_locked(path)
    assert path.exists()
    with locked(path, patience=0):
        pass


def test_many_share_it(tmp_path: Path) -> None:
    """Who shares a lock keeps out only those who want it alone; to those who look it is free."""
    path = tmp_path / "lock"
    with locked(path, shared=True), locked(path, shared=True, patience=0):
        assert not is_locked(path)
        with pytest.raises(BlockingIOError), locked(path, patience=0):
            pass


@pytest.mark.parametrize("patience", [float("inf"), 10.0])
def test_who_waits_gets_it(tmp_path: Path, patience: float) -> None:
    """A lock that is given back within the patience is had then; the error comes after it, not before."""
    path, order = tmp_path / "lock", list[str]()

    def wait() -> None:
        with locked(path, patience=patience):
            order.append("got it")

    with locked(path):
        began = time.monotonic()
        with pytest.raises(BlockingIOError), locked(path, patience=0.1):
            pass
        assert time.monotonic() - began >= 0.1
        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.1)
        order.append("gave it back")
    waiting.join(10)
    assert order == ["gave it back", "got it"]


def test_looking_makes_no_file(tmp_path: Path) -> None:
    """A file that is not there is an error to those who look, and is not there afterwards."""
    with pytest.raises(FileNotFoundError):
        is_locked(tmp_path / "lock")
    assert not list(tmp_path.iterdir())
