"""`halo budget` on a home of its own, with a kernel of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from halo_budget.cli import command


def halo(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from halo_kernel.command import main; sys.exit(main(sys.argv[1:]))"
    env = {**os.environ, "HALO_HOME": str(home), "HALO_PLUGINS": "budget"}
    return subprocess.run(
        [sys.executable, "-c", code, "budget", *words], env=env, capture_output=True, text=True, timeout=60
    )


def test_a_budget_is_set_raised_shown_and_removed(tmp_path: Path) -> None:
    """What was set is there for the next command, in words and as JSON."""
    none = halo(tmp_path)
    assert (none.returncode, none.stderr) == (0, "")
    assert none.stdout.startswith("No budget is set.")
    made = halo(tmp_path, "set", "team", "--tokens", "5000", "--channel", "slack")
    assert made.stdout == "team: 5,000 tokens a day for channel slack\n  0 tokens spent, 5,000 tokens left\n"
    raised = halo(tmp_path, "raise", "team", "1,000")
    assert raised.stdout.endswith("  0 tokens spent, 1,000 tokens more allowed, 6,000 tokens left\n")
    shown = halo(tmp_path)
    assert shown.stdout.startswith(raised.stdout)
    (found,) = json.loads(halo(tmp_path, "--json").stdout)["budgets"]
    assert (found["name"], found["limit"], found["accounts"][0]["left"]) == ("team", 5000, 6000)
    assert halo(tmp_path, "remove", "team").stdout == "The budget team is removed.\n"
    missing = halo(tmp_path, "show", "team")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "halo: there is no budget team. `halo budget` lists them.\n"


@pytest.mark.parametrize(
    "words",
    [
        ["set"],
        ["raise", "team"],
        ["raise", "team", "much"],
        ["set", "team", "3"],
        ["spend"],
        ["set", "a", "--each", "cat"],
    ],
)
def test_wrong_usage_ends_with_2_before_anything_happens(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What cannot be meant is told with the usage, and no home is made."""
    monkeypatch.setenv("HALO_HOME", str(tmp_path / "home"))
    with pytest.raises(SystemExit) as ended:
        command(words)
    assert ended.value.code == 2
    assert "usage: halo budget" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()
