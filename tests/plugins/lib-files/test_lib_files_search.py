"""The search that stands in for ripgrep."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def search(root: Path, files: list[str], pattern: str, limit: int = 50) -> tuple[int, str, str]:
    asked = json.dumps({"root": str(root), "files": files, "pattern": pattern, "limit": limit})
    done = subprocess.run(
        [sys.executable, "-m", "halo_lib_files.search"], input=asked, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_lines_that_match(tmp_path: Path) -> None:
    """It prints path, NUL, number and line of what matches, and passes over binary, missing and linked-out files."""
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").write_text("needle\n")
    (tmp_path / "root" / "a").write_bytes("x\nnéedle 1\r\nneedle 2\n".encode())
    (tmp_path / "root" / "bin").write_bytes(b"\0needle\n")
    (tmp_path / "root" / "out").symlink_to("../outside")
    code, out, _ = search(tmp_path / "root", ["a", "bin", "out", "gone", "../outside"], "n.+dle")
    assert (code, out) == (0, "a\x002:néedle 1\na\x003:needle 2\n")


def test_limit_and_nothing(tmp_path: Path) -> None:
    """It stops at the limit, and says with its exit code when nothing matched."""
    (tmp_path / "a").write_text("x\n" * 10)
    assert search(tmp_path, ["a"], "x", limit=3)[1].count("\n") == 3
    assert search(tmp_path, ["a"], "y")[0] == 1


def test_a_bad_expression(tmp_path: Path) -> None:
    """A bad expression is exit code 2 and says what is wrong with it."""
    code, _, error = search(tmp_path, [], "(")
    assert code == 2
    assert "unterminated subpattern" in error
