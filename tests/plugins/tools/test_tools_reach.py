"""Who may open what: levels, links, hidden paths, and Halo's own databases."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import Forbidden, HaloError, is_own_file
from halo_kernel.testing import ScriptedModel, running_kernel

NOTHING = 'No matches found for pattern "SQLite|session"'
READERS = {
    "file_read": {},
    "file_list": {},
    "grep": {"pattern": "."},
    "glob": {"pattern": "*"},
}
WRITERS = {"file_write": {"content": "x"}, "file_edit": {"old_string": "SQLite", "new_string": "x"}}


@pytest.fixture
def outside(desk: Any) -> Path:
    folder = desk.base / "elsewhere"
    folder.mkdir()
    (folder / "f").write_text("needle\n")
    return folder


async def test_full_reaches_everywhere_by_name(desk: Any, outside: Path) -> None:
    """At full access an absolute path, one with '..' and one from the home folder are read and written."""
    (desk.home / "notes").write_text("mine\n")
    for path in (str(outside / "f"), "../elsewhere/f"):
        assert "needle" in await desk.call("file_read", path=path)
    assert "mine" in await desk.call("file_read", path="~/notes")
    await desk.call("file_write", path=str(outside / "new"), content="x")
    assert f"{outside}/f:1:needle" == await desk.call("grep", pattern="needle", path=str(outside))
    assert f"{outside}/f\n{outside}/new" == await desk.call("glob", pattern="*", path="../elsewhere")
    assert f"{outside}/f" == await desk.call("glob", pattern=f"{outside}/f*")


async def test_workspace_reads_outside_and_writes_inside(desk: Any, outside: Path) -> None:
    """At workspace access files outside are read but not written, but for the folders that settings name."""
    assert "needle" in await desk.call("file_read", "workspace", path=str(outside / "f"))
    for tool, arguments in WRITERS.items():
        with pytest.raises(Forbidden, match="outside"):
            await desk.call(tool, "workspace", path=str(outside / "f"), **arguments)
    assert (outside / "f").read_text() == "needle\n"
    desk.set(writable_dirs=(str(outside),))
    await desk.call("file_write", "workspace", path=str(outside / "f"), content="x")
    await desk.call("file_write", "workspace", path="inside", content="x")
    assert ((outside / "f").read_text(), (desk.folder / "inside").read_text()) == ("x", "x")


async def test_readonly_sees_the_workspace_and_writes_nothing(desk: Any, outside: Path) -> None:
    """At readonly access nothing is written and nothing outside is read but Halo's shared files."""
    desk.write("f", "x")
    (desk.halo / "global" / "docs").mkdir()
    (desk.halo / "global" / "docs" / "guide.md").write_text("guide\n")
    for tool, arguments in READERS.items():
        with pytest.raises(Forbidden, match="outside"):
            await desk.call(tool, "readonly", path=str(outside), **arguments)
    for tool, arguments in WRITERS.items():
        with pytest.raises(Forbidden):
            await desk.call(tool, "readonly", path="f", **arguments)
    assert "guide" in await desk.call("file_read", "readonly", path=str(desk.halo / "global/docs/guide.md"))
    assert (desk.folder / "f").read_text() == "x"
    assert "shell_exec" not in desk.tools("readonly")


async def test_a_turn_may_be_lower_than_its_session(desk: Any, outside: Path) -> None:
    """The lower of the session's level and the turn's decides, whichever it is."""
    for session, turn in (("full", "readonly"), ("readonly", "full")):
        with pytest.raises(Forbidden):
            await desk.call("file_read", session, turn, path=str(outside / "f"))


@pytest.mark.parametrize("access", ["full", "workspace", "readonly"])
async def test_no_link_leads_out(desk: Any, outside: Path, access: Any) -> None:
    """Links and links in links lead nowhere outside, at any level, for any tool."""
    os.symlink(outside, desk.folder / "folder")
    os.symlink("folder/f", desk.folder / "file")
    os.symlink(desk.base, desk.folder / "up")
    for path in ("folder/f", "file", "up/elsewhere/f", "up/workspace/file"):
        for tool, arguments in {**READERS, **WRITERS}.items():
            with pytest.raises(HaloError):
                await desk.call(tool, access, path=path, **arguments)
    assert (await desk.call("grep", access, pattern="needle")).startswith("No matches")
    assert "f" not in (await desk.call("glob", access, pattern="**/f")).split("\n")
    assert (outside / "f").read_text() == "needle\n"


async def test_an_alias_of_the_workspace_is_the_workspace(desk: Any) -> None:
    """A path that reaches the workspace through a link outside is a path in the workspace."""
    desk.write("f", "here\n")
    os.symlink(desk.folder, desk.base / "alias")
    assert "here" in await desk.call("file_read", "readonly", path=str(desk.base / "alias" / "f"))
    await desk.call("file_write", "workspace", path=str(desk.base / "alias" / "g"), content="x")
    assert (desk.folder / "g").exists()


def hide(desk: Any) -> list[Path]:
    """Make one of each kind of hidden file and return them."""
    files = [
        desk.home / ".ssh" / "id_ed25519",
        desk.home / ".aws" / "credentials",
        desk.home / ".netrc",
        desk.home / ".gitconfig",
        desk.halo / "secrets" / "settings.yaml",
        desk.halo / "secrets" / "channels" / "channels.db",
        desk.halo / "global" / "logs" / "server.log",
        desk.halo / "global" / "kernel.db",
        desk.halo / "global" / "kernel.db-wal",
        desk.folder / ".halo" / "logs" / "turns.log",
        desk.folder / ".halo" / "sessions" / "s.jsonl",
        desk.folder / ".halo" / "halo.db",
        desk.base / "mine" / "f",
        desk.base / "key.pem",
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("SECRET\n")
    desk.set(hidden_dirs=(str(desk.base / "mine"),), hidden_files=(str(desk.base / "key.pem"), "~/.netrc"))
    return files


@pytest.mark.parametrize("access", ["workspace", "readonly"])
async def test_hidden_paths_are_hidden(desk: Any, access: Any) -> None:
    """Credentials, Halo's own files and what settings name are not read, listed or searched below full access."""
    for file in hide(desk):
        os.symlink(file, desk.folder / "soft")
        for path in (str(file), str(file.parent / ".." / file.parent.name / file.name), "soft"):
            with pytest.raises(HaloError):
                await desk.call("file_read", access, path=path)
        (desk.folder / "soft").unlink()
    for file in (
        desk.home / ".netrc",
        desk.base / "key.pem",
        desk.halo / "global/kernel.db",
        desk.folder / ".halo/halo.db",
    ):
        os.link(file, desk.folder / "hard")
        with pytest.raises(HaloError):
            await desk.call("file_read", access, path="hard")
        (desk.folder / "hard").unlink()
    assert await desk.call("grep", access, pattern="SECRET") == 'No matches found for pattern "SECRET"'
    if access == "workspace":
        for place in (desk.home, desk.halo, desk.base):
            assert "No matches" in await desk.call("grep", access, pattern="SECRET", path=str(place))
            assert ".ssh" not in await desk.call("file_list", access, path=str(place), recursive=True)


async def test_secrets_and_databases_are_refused_at_full_too(desk: Any) -> None:
    """At full access the file tools still refuse Halo's secrets, databases and backups; all else may be read."""
    hide(desk)
    for path in (
        desk.halo / "secrets" / "settings.yaml",
        desk.halo / "global" / "kernel.db",
        desk.folder / ".halo" / "halo.db",
        desk.folder / ".halo" / "halo.db-journal",
        desk.folder / ".halo" / "halo.db.backup-1",
        desk.folder / ".halo" / ".halo.db.backup-2.a8s9d7",
        desk.halo / "global" / "kernel.db.backup-12",
    ):
        for tool in ("file_read", "file_write", "file_edit"):
            arguments = {"file_write": {"content": "x"}, "file_edit": {"old_string": "S", "new_string": "x"}}.get(
                tool, {}
            )
            with pytest.raises(Forbidden):
                await desk.call(tool, path=str(path), **arguments)
    assert "SECRET" in await desk.call("file_read", path="~/.ssh/id_ed25519")
    assert not (desk.folder / ".halo" / "halo.db-journal").exists()


async def test_pseudo_files_are_refused(desk: Any) -> None:
    """The server's own environment cannot be read through /proc, at any level."""
    for access in ("full", "workspace", "readonly"):
        with pytest.raises(HaloError):
            await desk.call("file_read", access, path="/proc/self/environ")


def locks() -> list[str]:
    """List the POSIX locks that this process holds: type, range and file."""
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return sorted(
        " ".join([*line[3:4], *line[5:]]) for line in lines if line[1] == "POSIX" and line[4] == str(os.getpid())
    )


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="lists its locks only on Linux")
async def test_every_file_tool_refuses_our_databases(desk: Any) -> None:
    """halo.db, -wal and -shm of a running kernel are refused by name, hard link and link, by every tool at every level.

    The kernel's locks on them stay, which opening and closing any of them once would end.
    """
    async with running_kernel(desk.halo, model=ScriptedModel()) as kernel:
        await kernel.host.workspaces.open(desk.folder)
        names = ("halo.db", "halo.db-wal", "halo.db-shm")
        paths = [path for number, name in enumerate(names) for path in alias(desk.folder, name, number)]
        held, before = locks(), {path: os.stat(desk.folder / path).st_ino for path in paths}
        assert held
        for path in paths:
            assert is_own_file(desk.folder / path)
            for access in ("full", "workspace", "readonly"):
                for tool, arguments in {**READERS, **WRITERS}.items():
                    await refused(desk, tool, access, path, arguments)
        for access in ("full", "workspace", "readonly"):
            for tool, arguments in (("file_list", {"recursive": True}), ("glob", {"pattern": "**/*"})):
                shown = await desk.call(tool, access, **arguments)
                assert not [path for path in paths if os.path.basename(path) in shown]
            assert await desk.call("grep", access, pattern="SQLite|session") == NOTHING
        assert locks() == held
        assert before == {path: os.stat(desk.folder / path).st_ino for path in paths}
    with closing(sqlite3.connect(desk.folder / ".halo" / "halo.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def alias(folder: Path, name: str, number: int) -> list[str]:
    """Give a database all the names that a file can have."""
    os.link(folder / ".halo" / name, folder / f"hard-{name}")
    os.link(folder / ".halo" / name, folder / f"plain-{number}")
    os.symlink(f".halo/{name}", folder / f"soft-{number}")
    os.symlink(folder / ".halo" / name, folder / f"far-{number}")
    return [
        f".halo/{name}",
        str(folder / ".halo" / name),
        f"hard-{name}",
        *(f"{kind}-{number}" for kind in ("plain", "soft", "far")),
    ]


async def refused(desk: Any, tool: str, access: Any, path: str, arguments: dict[str, object]) -> None:
    with pytest.raises(HaloError, match=r"one of Halo's own databases|readonly access writes no files"):
        await desk.call(tool, access, path=path, **arguments)
