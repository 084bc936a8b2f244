"""What all tests share: programs that may be missing, and a home that is never the person's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# In CI the same tests get the same examples; new ones are found where somebody can look at them.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("HALO_CI"):
    settings.load_profile("ci")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose programs are missing; in CI, which installs them, fail it."""
    for mark in item.iter_markers("needs"):
        missing = [program for program in mark.args if shutil.which(program) is None]
        if missing and os.environ.get("HALO_CI"):
            pytest.fail(f"CI must install {', '.join(missing)}", pytrace=False)
        if missing:
            pytest.skip(f"not installed here: {', '.join(missing)}")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point `HALO_HOME` at an empty folder and drop every other `HALO_*` variable but `HALO_CI`."""
    for name in list(os.environ):
        if name.startswith("HALO_") and name not in ("HALO_CI", "HALO_WHEELS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "halo-home"))
