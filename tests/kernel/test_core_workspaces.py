"""Workspaces and the kernel's end: odd paths are refused with a sentence, and a bad plugin keeps nothing open."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from halo_kernel import (
    OPERATOR,
    BadInput,
    Conflict,
    Host,
    Incoming,
    NotFound,
    StorageUnavailable,
    WorkspaceUnusable,
    hook,
)
from halo_kernel.testing import Hang, ScriptedModel, running_kernel, until


@pytest.mark.parametrize(
    "path", ["a\0b", "~nobody-of-this-name/x", "x" * 5000, "\ud800", "/" + "y/" * 3000, ""], ids=range(6)
)
async def test_a_path_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Whatever is given as a folder, the answer is a typed error that names it, or the folder."""
    monkeypatch.chdir(tmp_path)
    async with running_kernel(tmp_path / "home") as kernel:
        if path == "":
            assert (await kernel.host.workspaces.open(path)).path == str(tmp_path)
            return
        with pytest.raises(WorkspaceUnusable):
            await kernel.host.workspaces.open(path)


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
async def test_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    """A home or a workspace that is not named in UTF-8, a link's target too, is refused in one sentence."""
    odd = tmp_path / "w\udcff"
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd)
    async with running_kernel(tmp_path / "home") as kernel:
        for path in (odd, tmp_path / "link"):
            with pytest.raises(
                WorkspaceUnusable, match=r"the workspace '.*w\\udcff' has a name that is not UTF-8 text"
            ):
                await kernel.host.workspaces.open(path)
        assert await kernel.host.workspaces.list() == []
    with pytest.raises(BadInput, match=r"the home '.*h\\udcff' has a name that is not UTF-8 text") as caught:
        async with running_kernel(tmp_path / "h\udcff"):
            pass
    assert caught.value.field == "HALO_HOME"
    assert list(odd.iterdir()) == []


async def test_a_file_in_place_of_our_folder_is_named(tmp_path: Path) -> None:
    """A `.halo` that is a file is no matter of permissions, and stays."""
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".halo").write_text("mine")
    async with running_kernel(tmp_path / "home") as kernel:
        with pytest.raises(WorkspaceUnusable, match=r"w/\.halo is a file, not a folder"):
            await kernel.host.workspaces.open(tmp_path / "w")
    assert (tmp_path / "w" / ".halo").read_text() == "mine"


@pytest.mark.parametrize("directory", ["a\0b", "x" * 5000, "~nobody-of-this-name", "\ud800", ".."], ids=range(5))
async def test_a_directory_that_cannot_be_is_refused(tmp_path: Path, directory: str) -> None:
    """A session's directory that is no folder of the workspace is bad input of that name."""
    (tmp_path / "w").mkdir()
    async with running_kernel(tmp_path / "home") as kernel:
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        with pytest.raises(BadInput) as caught:
            await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR, directory=directory)
        assert caught.value.field == "directory"


class Clinging:
    """Fails when it is told that the kernel stops."""

    @hook
    async def runtime_stopping(self, host: Host) -> None:
        raise RuntimeError("never")


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(1), asyncio.CancelledError()], ids=str)
async def test_a_provider_that_fails_to_close_keeps_nothing_open(tmp_path: Path, error: BaseException) -> None:
    """Whatever plugins do at the end, databases are closed and leases free."""

    class Stuck(ScriptedModel):
        def close(self) -> None:  # type: ignore[override]
            raise error

    async with running_kernel(tmp_path / "home", model=Stuck(), extra={"clinging": Clinging()}) as kernel:
        (tmp_path / "w").mkdir()
        workspace = await kernel.host.workspaces.open(tmp_path / "w")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        await session.prompt(Incoming(text="go")).result
    with pytest.raises(StorageUnavailable):
        await session.output()
    members = tmp_path / "w" / ".halo" / "halo.db.members"
    assert not [each for each in members.iterdir() if not each.name.startswith(".")]


async def test_a_workspace_that_cannot_be_recovered_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps one busy workspace from opening, the others are recovered."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        names: list[str] = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            names.append((await kernel.host.workspaces.open(tmp_path / name)).id)
            await kernel.workspaces.mark_busy(names[-1])
        recovered: list[str] = []
        recover = kernel.sessions.recover

        async def one(workspace: str) -> None:
            recovered.append(workspace)
            if len(recovered) == 1:
                raise OSError("disk gone")
            return await recover(workspace)

        monkeypatch.setattr(kernel.sessions, "recover", one)
        await kernel.recover()
        assert sorted(recovered) == sorted(names)


async def test_a_copy_becomes_a_workspace_of_its_own(tmp_path: Path) -> None:
    """It keeps its conversations and gets a new id; the original, which nobody has open here, stays what it was."""
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    async with running_kernel(tmp_path / "home", model=ScriptedModel()) as kernel:
        workspace = await kernel.host.workspaces.open(first)
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        await session.prompt(Incoming(text="go")).result
        with pytest.raises(Conflict, match="is open"):
            await kernel.host.workspaces.open(first, anew=True)
    shutil.copytree(first, copy)
    async with running_kernel(tmp_path / "home") as kernel:
        with pytest.raises(Conflict, match="one workspace: one is a copy") as refused:
            await kernel.host.workspaces.open(copy)
        assert f"halo workspaces new-id {copy}" in refused.value.advice
        made = await kernel.host.workspaces.open(copy, anew=True)
        assert (await kernel.host.workspaces.open(first)).id == workspace.id != made.id
        assert {each.id for each in await kernel.host.workspaces.list()} == {made.id, workspace.id}
        same = await kernel.host.sessions.open(session.info.id, workspace=made.id, principal=OPERATOR)
        assert same.info.workspace == made.id


async def test_a_workspace_that_was_moved_behind_a_link_is_the_same(tmp_path: Path) -> None:
    """A folder that the list knows by another way to the same place is no copy, whichever way it is opened by."""
    disk, link = tmp_path / "disk", tmp_path / "link"
    (disk / "w").mkdir(parents=True)
    async with running_kernel(tmp_path / "home") as kernel:
        first = await kernel.host.workspaces.open(disk / "w")
        registry, odd = kernel.workspaces.registry, str(tmp_path / "disk" / ".." / "disk" / "w")
        await registry.write(lambda tx: tx.one("UPDATE workspaces SET path = ?", (odd,)))
    async with running_kernel(tmp_path / "home") as kernel:
        assert (await kernel.host.workspaces.open(disk / "w")).id == first.id
    (tmp_path / "far").mkdir()
    shutil.move(disk / "w", tmp_path / "far" / "w")
    (disk / "w").symlink_to(tmp_path / "far" / "w")
    link.symlink_to(disk)
    async with running_kernel(tmp_path / "home") as kernel:
        for way in (disk / "w", link / "w", tmp_path / "far" / "w"):
            assert (await kernel.host.workspaces.open(way)).id == first.id
        assert [each.path for each in await kernel.host.workspaces.list()] == [str(tmp_path / "far" / "w")]


async def test_unfinished_work_is_not_copied(tmp_path: Path) -> None:
    """A copy in which something runs, waits or is owed gets no new id, since both would do it, and stays as it is."""
    model = ScriptedModel([Hang()])
    (tmp_path / "first").mkdir()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        workspace = await kernel.host.workspaces.open(tmp_path / "first")
        session = await kernel.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        await session.submit(Incoming(text="go"))
        await until(lambda: model.active)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    async with running_kernel(tmp_path / "other") as kernel:
        with pytest.raises(Conflict, match="is not finished"):
            await kernel.host.workspaces.open(tmp_path / "copy", anew=True)
        assert (await kernel.host.workspaces.open(tmp_path / "copy")).id == workspace.id


async def test_a_workspace_is_forgotten_until_it_is_opened(tmp_path: Path) -> None:
    """What is not open leaves the list, whether its folder is there or not, and comes back as it was."""
    ids: dict[str, str] = {}
    async with running_kernel(tmp_path / "home") as kernel:
        for name in ("here", "gone"):
            (tmp_path / name).mkdir()
            ids[name] = (await kernel.host.workspaces.open(tmp_path / name)).id
        with pytest.raises(Conflict, match="is open"):
            await kernel.host.workspaces.forget(ids["here"])
    shutil.rmtree(tmp_path / "gone")
    async with running_kernel(tmp_path / "home") as kernel:
        for name in ids.values():
            await kernel.host.workspaces.forget(name)
            with pytest.raises(NotFound):
                await kernel.host.workspaces.forget(name)
        assert await kernel.host.workspaces.list() == []
        assert (await kernel.host.workspaces.open(tmp_path / "here")).id == ids["here"]
