"""`shell_exec` below full access, in real bubblewrap."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import OPERATOR
from halo_kernel.testing import ScriptedModel, running_kernel
from halo_tools.shell import CommandFailed, git_identity

pytestmark = pytest.mark.needs("bwrap")


async def shell(desk: Any, command: str) -> str:
    """Run a command at workspace access and return what it printed, failed or not."""
    try:
        return str(await desk.call("shell_exec", "workspace", command=command))
    except CommandFailed as error:
        return str(error)


async def test_a_command_works_in_the_workspace(desk: Any) -> None:
    """A command reads and writes the workspace, as whom the server runs, and its exit code comes back."""
    desk.write("in", "x")
    assert await shell(desk, "pwd; cat in; mkdir d; echo y > d/out; ls") == f"{desk.folder}\nxd\nin"
    assert (desk.folder / "d" / "out").stat().st_uid == os.geteuid()
    assert (desk.folder / "d" / "out").stat().st_gid == os.getegid()
    assert "Exit code: 3" in await shell(desk, "exit 3")


async def test_nothing_outside_is_written(desk: Any) -> None:
    """Outside the workspace nothing can be written, and the error says where it can."""
    for place in (desk.base, desk.home, desk.halo, Path("/var/tmp"), Path("/usr"), Path("/etc")):
        said = await shell(desk, f"touch {place}/canary")
        assert "Read-only file system" in said or "Permission denied" in said
        assert f"[Sandbox] This session runs at workspace access: commands write only in {desk.folder}" in said
        assert not (place / "canary").exists()


async def test_tmp_is_empty_and_goes(desk: Any) -> None:
    """/tmp is the command's own: it sees nothing of the machine's and leaves nothing there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        assert await shell(desk, f"ls -A /tmp; touch /tmp/x-{os.getpid()} && echo made; ls {folder}") != ""
        assert not Path(f"/tmp/x-{os.getpid()}").exists()
        assert "No such file" in await shell(desk, f"ls {folder}")


async def test_hidden_paths_are_empty(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials, Halo's secrets at their real place, databases, logs and what settings name are not there."""
    real = desk.base / "real-secrets"
    (desk.halo / "secrets").rmdir()
    real.mkdir()
    os.symlink(real, desk.halo / "secrets")
    desk.set(hidden_dirs=(str(desk.base / "mine"), "~/not-there"), hidden_files=(str(desk.base / "key.pem"),))
    files = [
        *(desk.home / name for name in (".ssh/id", ".aws/credentials", ".gnupg/x", ".docker/config.json")),
        *(
            desk.home / name
            for name in (".config/gh/hosts.yml", ".npmrc", ".netrc", ".git-credentials", ".bash_history")
        ),
        *(
            desk.halo / name
            for name in ("secrets/settings.yaml", "global/kernel.db", "global/kernel.db-wal", "global/logs/x")
        ),
        *(desk.folder / ".halo" / name for name in ("halo.db", "halo.db-wal", "logs/x", "sessions/x", "evo/x")),
        *(desk.base / name for name in ("mine/x", "key.pem", "real-secrets/token")),
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("CANARY")
    said = await shell(desk, f"cat {' '.join(map(str, files))}; grep -r CANARY {desk.base}; cat {desk.folder}/.halo/*")
    assert "CANARY" not in said
    assert all(file.read_text() == "CANARY" for file in files)


async def test_a_home_as_workspace_hides_what_is_hidden_in_it(desk: Any) -> None:
    """A workspace that holds hidden folders does not bring them back."""
    (desk.folder / ".ssh").mkdir()
    (desk.folder / ".ssh" / "id").write_text("CANARY")
    desk.set(hidden_dirs=(str(desk.folder / ".ssh"),))
    assert "CANARY" not in await shell(desk, "cat .ssh/id; rm -r .ssh/id; cat .ssh/id")
    assert (desk.folder / ".ssh" / "id").read_text() == "CANARY"


async def test_other_workspaces_keep_their_databases(desk: Any) -> None:
    """The databases of other workspaces are hidden, their files are not."""
    other = desk.base / "other"
    (other / ".halo").mkdir(parents=True)
    (other / ".halo" / "halo.db").write_text("CANARY")
    (other / "README").write_text("open")
    desk.others = [str(other), str(desk.folder)]
    assert await shell(desk, f"cat {other}/.halo/halo.db {other}/README") == "open"


async def test_our_database_cannot_be_harmed(desk: Any) -> None:
    """No command reads, replaces, moves or removes the database of its workspace, whose journal stays whole."""
    async with running_kernel(desk.halo, model=ScriptedModel()) as kernel:
        await kernel.host.workspaces.open(desk.folder)
        before = os.stat(desk.folder / ".halo" / "halo.db")
        for command in (
            "cat .halo/halo.db .halo/halo.db-wal .halo/halo.db-shm",
            "find .halo -delete",
            "mv .halo gone; mkdir .halo; echo forged > .halo/halo.db",
            "mv .halo/halo.db x; ln .halo/halo.db y; cp .halo/halo.db z; echo forged > .halo/halo.db",
            'python3 -c \'import os; os.replace("/etc/hostname", ".halo/halo.db")\'',
            "ls .halo/halo.db.members && touch .halo/halo.db.members/x",
        ):
            assert "SQLite" not in await shell(desk, command)
        after = os.stat(desk.folder / ".halo" / "halo.db")
        assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)
        assert not list((desk.folder / ".halo").rglob("x"))
        await kernel.host.sessions.create(workspace=(await kernel.host.workspaces.list())[0].id, principal=OPERATOR)
    with closing(sqlite3.connect(desk.folder / ".halo" / "halo.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


async def test_writable_folders_are_written(desk: Any) -> None:
    """Folders that settings name are written too; one that is not there is passed over."""
    (desk.base / "cache").mkdir()
    desk.set(writable_dirs=(str(desk.base / "cache"), str(desk.base / "missing")))
    assert await shell(desk, f"echo x > {desk.base}/cache/f") == "(no output)"
    assert (desk.base / "cache" / "f").exists()


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


async def test_network_is_a_setting(desk: Any, port: int) -> None:
    """The network is there unless the setting takes it away."""
    command = f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo $?"
    assert await shell(desk, command) == "0"
    desk.set(sandbox_network=False)
    assert "Connection refused" in await shell(desk, command)


async def test_no_rights_and_no_view_of_others(desk: Any) -> None:
    """A command has no capability, cannot gain one, and sees no process but its own."""
    status = await shell(desk, "grep -E 'Cap(Eff|Prm|Bnd)|NoNewPrivs' /proc/self/status; ls -d /proc/[0-9]* | wc -l")
    assert [line.split()[-1] for line in status.split("\n")[:4]] == ["0" * 16, "0" * 16, "0" * 16, "1"]
    assert int(status.split("\n")[4]) < 10
    pid = os.getpid()
    assert "PATH=" not in await shell(desk, f"cat /proc/{pid}/environ")


async def test_mounts_cannot_be_undone(desk: Any) -> None:
    """Not even in namespaces of its own can a command make the disk writable or take a mask off."""
    (desk.home / ".ssh").mkdir()
    (desk.home / ".ssh" / "id").write_text("CANARY")
    undo = f"mount -o remount,bind,rw /; umount {desk.home}/.ssh; cat {desk.home}/.ssh/id; touch {desk.base}/canary"
    assert "CANARY" not in await shell(desk, f'{undo}; unshare -Urm bash -c "{undo}"')
    assert not (desk.base / "canary").exists()


async def test_the_environment_is_cleared(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the server's environment is there but the language; PATH begins with the home folder's own."""
    monkeypatch.setenv("CANARY", "x")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    lines = (await shell(desk, "env")).split("\n")
    env = dict(line.split("=", 1) for line in lines)
    names = {"PATH", "HOME", "TERM", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "PWD", "SHLVL", "_", "OLDPWD"}
    assert set(env) <= names
    assert env["PATH"].startswith(f"{desk.home}/.local/bin:")


@pytest.mark.needs("git")
async def test_git_works(desk: Any) -> None:
    """Commits carry the person's name although ~/.gitconfig is hidden, and hidden files do not make git fail."""
    (desk.home / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = a@example.org\n")
    git_identity.cache_clear()
    try:
        said = await shell(
            desk, "git init -q . && touch f && git add f && git commit -qm x && git log --format='%an <%ae>'"
        )
    finally:
        git_identity.cache_clear()
    assert said == "A Person <a@example.org>"


async def test_nothing_is_left_running(desk: Any) -> None:
    """When a command ends, so does all that it started, also what moved to a session of its own."""
    mark = f"{desk.base.name}-sleeper"
    assert (
        await shell(desk, f"setsid nohup bash -c 'exec -a {mark} sleep 300' > log 2>&1 & sleep 0.3; echo done")
        == "done"
    )
    assert await gone(mark)


@pytest.mark.parametrize("way", ["timeout", "cancel", "limit"])
async def test_nothing_is_left_running_when_cut(desk: Any, way: str) -> None:
    """When a command is cut, whatever it did, all that it started is gone."""
    mark = f"{desk.base.name}-sleeper"
    desk.set(shell_timeout=0.6 if way == "timeout" else 60, shell_output_bytes=5000)
    flood = "yes" if way == "limit" else "wait"
    sleeper = f"bash -c 'exec -a {mark} sleep 300'"
    work = asyncio.create_task(shell(desk, f"trap '' TERM; setsid {sleeper} & {sleeper} & sleep 0.3; {flood}"))
    if way == "cancel":
        for _ in range(500):
            if running(mark):
                break
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    else:
        assert ("timed out" if way == "timeout" else "passed 5000 bytes") in await work
    assert await gone(mark)


async def gone(mark: str) -> bool:
    for _ in range(50):
        if not running(mark):
            return True
        await asyncio.sleep(0.02)
    return False


def running(mark: str) -> list[str]:
    """List the processes of the machine whose first word is the mark."""
    found = list[str]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if path.read_bytes().split(b"\0")[0] == mark.encode() else []
        except OSError:
            continue
    return found


async def test_a_workspace_below_tmp(desk: Any) -> None:
    """A workspace in /tmp is there, although the rest of /tmp is empty."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        (desk.folder / ".halo").rmdir()
        desk.folder.rmdir()
        os.symlink(folder, desk.folder)
        assert await shell(desk, "echo x > f; cat f") == "x"
        assert (folder / "f").read_text() == "x\n"
        assert await desk.call("grep", "readonly", pattern="x") == "f:1:x"
    finally:
        shutil.rmtree(folder)


async def test_strange_paths_are_paths(desk: Any) -> None:
    """A workspace whose name has spaces, quotes and a leading dash is only a path."""
    name = desk.base / "-a 'b\" $(touch c) *"
    os.rename(desk.folder, name)
    os.symlink(name, desk.folder)
    assert await shell(desk, 'pwd; echo x > "f g"') == str(name)
    assert (name / "f g").exists()
