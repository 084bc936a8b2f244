"""What no session sees of Halo's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from halo_tools.hidden import is_database, workspace_masks


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("/w/.halo/halo.db", True),
        ("/w/.halo/halo.db-wal", True),
        ("/w/.halo/.replaced/20260101-120000/halo.db", True),
        ("/h/global/.replaced/20260101-120000/kernel.db", True),
        ("/w/data/mine.db", False),
        ("/w/.halo/skills/facts/facts.db", False),
        ("/w/.halo/.replaced/20260101-120000/agents/me/agent.yaml", False),
    ],
)
def test_a_database_is_one_by_its_place_and_name(path: str, hidden: bool) -> None:
    """Databases of a workspace and of the home are refused, those too that a restore has replaced; others are not."""
    assert is_database(path, "/h") == hidden


def test_what_a_restore_replaced_is_masked(tmp_path: Path) -> None:
    """In a sandbox nothing is seen of the folder with what a restore replaced, here and in other workspaces."""
    for name in ("w", "other"):
        (tmp_path / name / ".halo" / ".replaced").mkdir(parents=True)
    found = workspace_masks(str(tmp_path / "w"), [str(tmp_path / "w"), str(tmp_path / "other")])
    assert {str(tmp_path / name / ".halo" / ".replaced") for name in ("w", "other")} <= set(found)
