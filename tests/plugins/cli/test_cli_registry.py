"""`halo workspaces`, over a kernel of its own process and over a server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from halo_cli import init, registry
from halo_cli.launch import end
from halo_cli.start import start
from halo_kernel import Conflict, NotFound, default_home


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with the workspaces `one` and `two`; we are in it."""
    place = tmp_path / "place"
    for name in ("one", "two"):
        (place / name).mkdir(parents=True)
    monkeypatch.chdir(place)
    for name in ("one", "two"):
        init.command([name])
    capsys.readouterr()
    return place


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the ids of the workspaces that `halo workspaces` lists, by what it says behind them."""
    assert registry.command([]) == 0
    return {line[18:]: line[:16] for line in capsys.readouterr().out.splitlines()}


def test_what_is_known_is_listed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a workspace, the newest first, and whether its folder is still there."""
    shutil.rmtree(place / "one")
    assert list(listed(capsys)) == [f"{place}/two", f"{place}/one  (not there)"]


@pytest.mark.parametrize("how", ["id", "path", "gone"])
def test_a_workspace_is_forgotten(place: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    """By its id or its folder, which need not be there; what is in the folder stays."""
    name = listed(capsys)[f"{place}/one"] if how == "id" else "one"
    if how == "gone":
        shutil.rmtree(place / "one")
    assert registry.command(["forget", name]) == 0
    assert capsys.readouterr().out.startswith(f"{place}/one is forgotten.")
    assert list(listed(capsys)) == [f"{place}/two"]
    assert (place / "one" / ".halo" / "halo.db").exists() == (how != "gone")
    with pytest.raises(NotFound, match=f"no workspace {name} is known"):
        registry.command(["forget", name])


def test_a_copy_gets_an_id_of_its_own(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error that refuses a copy says how, and that makes it one more workspace."""
    shutil.copytree(place / "one", place / "copy")
    with pytest.raises(Conflict, match="one is a copy of the other") as refused:
        init.command(["copy"])
    assert refused.value.advice.endswith(f"halo workspaces new-id {place}/copy")
    before = listed(capsys)
    assert registry.command(["new-id", "copy"]) == 0
    capsys.readouterr()
    after = listed(capsys)
    assert before.items() < after.items()
    assert len({*after.values()}) == 3
    assert init.command(["copy"]) == 0


def test_a_folder_that_is_no_workspace_is_left_alone(place: Path) -> None:
    """A mistyped name makes no workspace."""
    (place / "three").mkdir()
    with pytest.raises(NotFound, match="three is no workspace yet"):
        registry.command(["new-id", "three"])
    assert list((place / "three").iterdir()) == []


def test_what_a_server_has_open_is_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While the server has it open it is neither forgotten nor renamed, and the error says what to do."""
    process, client = start(["--port", "0"], home=default_home(os.environ))
    try:
        client.post("/api/workspaces", {"path": str(place / "one")})
        for action in ("forget", "new-id"):
            with pytest.raises(Conflict, match=f"the workspace {place}/one is open") as refused:
                registry.command([action, "one"])
            assert "`halo stop`" in refused.value.advice
        assert registry.command(["forget", "two"]) == 0
        capsys.readouterr()
        assert list(listed(capsys)) == [f"{place}/one"]
    finally:
        end(process)
