"""Homes of every version so far are opened by this one: what they hold is there, and goes on."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import (
    OPERATOR,
    AssistantDiscarded,
    DataScope,
    Incoming,
    InputAdded,
    Migration,
    NewerData,
    ToolFinished,
    ToolResult,
)
from halo_kernel.schema import HOME, WORKSPACE
from halo_kernel.testing import Answer, ScriptedModel, running_kernel

HOMES = Path(__file__).parents[1] / "data" / "homes"
VERSIONS = sorted(path.name for path in HOMES.iterdir() if path.is_dir() and path.name[0].isdigit())
BIRDS = (
    Migration(version=1, sql="CREATE TABLE birds(name TEXT PRIMARY KEY)"),
    Migration(version=2, sql="ALTER TABLE birds ADD COLUMN legs INTEGER NOT NULL DEFAULT 2"),
)
SCOPES: tuple[DataScope, ...] = ("global", "secret", "workspace")


@pytest.fixture(params=VERSIONS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a home that some version left, with its workspace."""
    shutil.copytree(HOMES / request.param, tmp_path / "kept")
    return tmp_path / "kept"


def rows(path: Path, sql: str) -> list[Any]:
    """Read a database as any program would."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def contents(folder: Path) -> dict[str, bytes]:
    """Return all databases below a folder, and what lies beside them."""
    return {str(path): path.read_bytes() for path in folder.rglob("*.db*") if path.is_file()}


async def test_a_home_of_an_older_version_opens_and_goes_on(kept: Path) -> None:
    """Its sessions, their journals and their keys are there, and the next turn is shown all of it."""
    model = ScriptedModel([Answer("Still here.")])
    async with running_kernel(kept / "home", model=model) as kernel:
        workspace = await kernel.host.workspaces.open(kept / "workspace")
        session = await kernel.host.sessions.open("kept", workspace=workspace.id, principal=OPERATOR)
        bodies = [update.event.body async for update in session.events() if update.event]
        assert [body.text for body in bodies if isinstance(body, InputAdded)] == [
            "Remember the heron.",
            "What did you note?",
        ]
        assert [body.text for body in bodies if isinstance(body, ToolFinished)] == ["noted remember"]
        assert len([body for body in bodies if isinstance(body, AssistantDiscarded)]) == 1
        again = session.prompt(Incoming(text="Remember the heron.", key="first"))
        assert (await again.result).text == "Noted: heron." and model.requests == []
        assert (await session.prompt(Incoming(text="And now?")).result).text == "Still here."
        results = [b for m in model.requests[0].messages for b in m.content if isinstance(b, ToolResult)]
        assert [result.text for result in results] == ["noted remember"]


async def test_an_older_home_is_backed_up_once(kept: Path) -> None:
    """Each database that is updated has a copy of what it was beside it; the next start makes none."""
    files = [(kept / "home" / "global" / "kernel.db", HOME), (kept / "workspace" / ".halo" / "halo.db", WORKSPACE)]
    were = {path: rows(path, "SELECT max(version) FROM schema")[0][0] for path, _ in files}
    inbox = rows(files[1][0], "SELECT key, text, state FROM inbox ORDER BY id")
    for _ in range(2):
        async with running_kernel(kept / "home") as kernel:
            await kernel.host.workspaces.open(kept / "workspace")
        for path, steps in files:
            copies = [f"{path.name}.backup-1"] if were[path] < steps[-1].version else []
            assert [each.name for each in path.parent.glob(f"{path.name}.backup-*")] == copies
            if copies:
                assert rows(path.with_name(copies[0]), "SELECT max(version) FROM schema") == [(were[path],)]
            assert rows(path, "SELECT max(version) FROM schema") == [(steps[-1].version,)]
        for copy in files[1][0].parent.glob("halo.db.backup-*"):
            assert rows(copy, "SELECT key, text, state FROM inbox ORDER BY id") == inbox


async def test_a_plugins_databases_are_updated_too(kept: Path) -> None:
    """What a plugin kept in each scope is there under its next version, and a copy of each former state."""
    if not (kept / "home" / "global" / "birds.db").exists():
        pytest.skip("that version left no plugin's database")
    async with running_kernel(kept / "home") as kernel:
        workspace = await kernel.host.workspaces.open(kept / "workspace")
        for scope in SCOPES:
            database = await kernel.host.data.open("birds", scope, BIRDS, workspace=workspace.id)
            assert await database.read(lambda tx: tx.one("SELECT name, legs FROM birds")) == ("heron", 2)
    copies = sorted(kept.rglob("birds.db.backup-1"))
    assert len(copies) == len(SCOPES)
    assert [rows(copy, "SELECT * FROM birds") for copy in copies] == [[("heron",)]] * len(SCOPES)


@pytest.mark.parametrize("name", ["workspace/.halo/halo.db", "home/global/kernel.db"])
async def test_a_home_of_a_newer_version_is_refused_unchanged(tmp_path: Path, name: str) -> None:
    """A workspace or home that needs a newer version is left byte for byte as it is, and the sentence says so."""
    kept = tmp_path / "kept"
    shutil.copytree(HOMES / VERSIONS[-1], kept)
    async with running_kernel(kept / "home") as kernel:
        await kernel.host.workspaces.open(kept / "workspace")
    connection = sqlite3.connect(kept / name)
    connection.execute("INSERT INTO schema(version, min_reader) VALUES (999, 999)")
    connection.commit()
    connection.close()
    before = contents(kept / name.split("/")[0])
    with pytest.raises(NewerData, match="newer version") as refused:
        async with running_kernel(kept / "home") as kernel:
            await kernel.host.workspaces.open(kept / "workspace")
    assert os.path.basename(name) in refused.value.message and refused.value.advice
    assert contents(kept / name.split("/")[0]) == before


def test_this_version_has_left_a_home() -> None:
    """The version in the source is among the homes."""
    from halo_kernel import __version__

    ours = [name for name in VERSIONS if name.partition("-")[0] == __version__]
    assert ours and all((HOMES / name / "workspace" / ".halo" / "halo.db").exists() for name in ours)
