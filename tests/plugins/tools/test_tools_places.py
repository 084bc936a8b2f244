"""Sandboxed commands and searches wherever things lie: below the sandbox's own mounts, or behind links."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import halo_lib_files
from halo_tools.jail import Bubblewrap, Jail
from halo_tools.ripgrep import Searcher
from halo_tools.settings import ToolSettings
from halo_tools.shell import CommandFailed

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def venv(temporary: Path) -> Path:
    """A virtual environment below /tmp."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", temporary / "venv"], check=True)
    return temporary / "venv"


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder below /tmp, which the sandbox replaces."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="halo-test-") as folder:
        yield Path(folder)


async def shell(desk: Any, command: str) -> str:
    """Run a command at workspace access and return what it printed, failed or not."""
    try:
        return str(await desk.call("shell_exec", "workspace", command=command))
    except CommandFailed as error:
        return str(error)


@pytest.mark.parametrize("access", ["workspace", "readonly"])
async def test_where_the_server_was_started_is_all_one(
    desk: Any, temporary: Path, access: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search finds the same lines whatever the server's working folder is, one below /tmp too."""
    monkeypatch.chdir(temporary)
    desk.write("src/a", "needle\n")
    (desk.halo / "global" / "b").write_text("needle\n")
    assert await desk.call("grep", access, pattern="needle", path="src") == "src/a:1:needle"
    found = await desk.call("grep", access, pattern="needle", path=str(desk.halo / "global"))
    assert found == f"{desk.halo}/global/b:1:needle"


async def test_all_below_a_mount_of_the_sandbox(hidden_desk: Any) -> None:
    """A workspace below /tmp or /dev/shm is worked in, and what is hidden there stays hidden."""
    desk = hidden_desk
    other = desk.base / "other"
    secrets = [
        *(desk.home / ".ssh" / "id", desk.halo / "secrets" / "token", desk.halo / "global" / "kernel.db"),
        *(desk.folder / ".halo" / "halo.db", desk.folder / "mine" / "key", other / ".halo" / "halo.db"),
    ]
    for file in secrets:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("CANARY")
    desk.others = [str(other)]
    desk.set(hidden_dirs=(str(desk.folder / "mine"),))
    assert await shell(desk, "pwd; echo needle > f; cat f") == f"{desk.folder}\nneedle"
    assert (desk.folder / "f").read_text() == "needle\n"
    assert "CANARY" not in await shell(desk, f"cat {' '.join(map(str, secrets))}; grep -r CANARY {desk.base}; true")
    assert all(file.read_text() == "CANARY" for file in secrets)


async def test_a_mount_of_the_sandbox_holds_the_workspace_alone(hidden_desk: Any) -> None:
    """Beside the workspace, /tmp is empty: what is hidden or masked elsewhere in it leaves no name there."""
    desk = hidden_desk
    (desk.home / ".ssh").mkdir()
    (desk.base / "other" / ".halo").mkdir(parents=True)
    (desk.base / "other" / ".halo" / "halo.db").write_text("x")
    desk.others = [str(desk.base / "other")]
    (desk.base / "beside").write_text("x")
    assert await shell(desk, f"ls -A {desk.base}; ls -A {desk.base.parent}") == f"workspace\n{desk.base.name}"


@pytest.mark.parametrize("program", ["ripgrep", None])
async def test_searches_below_tmp(desk: Any, temporary: Path, program: str | None, monkeypatch: Any) -> None:
    """A search of a folder in /tmp, of one in that or of a file finds what is there, and nothing hidden."""
    if program is None:
        monkeypatch.setattr(Searcher, "program", None)
    word = f"needle-{temporary.name}"
    (temporary / "d").mkdir()
    (temporary / "d" / "f").write_text(word)
    (temporary / "key").write_text(word)
    desk.set(hidden_files=(str(temporary / "key"),))
    for path in (temporary / "d" / "f", temporary / "d", temporary):
        assert await desk.call("grep", "workspace", pattern=word, path=str(path)) == f"{temporary}/d/f:1:{word}"


def jail(desk: Any, **values: Any) -> Jail:
    """Return a jail that only reads."""
    (desk.base / "empty").touch()
    given = {"writable": (), "readable": (), "hidden": (), "masks": (), "empty": str(desk.base / "empty"), **values}
    return Jail(program="bwrap", workspace=str(desk.folder), **given)


def run(jailed: Jail, *command: str) -> str:
    argv = jailed.argv(command, cwd="/", setenv={"PATH": os.environ["PATH"]})
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    return done.stdout + done.stderr


@pytest.mark.parametrize("whole", ["/", "/tmp"])
def test_what_holds_tmp_is_searched_with_it(desk: Any, temporary: Path, whole: str) -> None:
    """A jail that is to read a folder with /tmp in it shows the machine's /tmp, still without what is hidden there."""
    (temporary / "f").write_text("found")
    (temporary / "key").write_text("CANARY")
    shown = run(
        jail(desk, readable=(whole,), hidden=(str(temporary / "key"),)), "cat", f"{temporary}/f", f"{temporary}/key"
    )
    assert shown == "found"
    assert "No such file" in run(jail(desk), "cat", f"{temporary}/f")


def test_a_relative_path_is_no_path_of_a_jail(desk: Any) -> None:
    """A path that depends on the working folder is refused before anything is mounted."""
    with pytest.raises(ValueError, match="'var/tmp' is not absolute"):
        jail(desk, readable=("var/tmp",))


@pytest.mark.parametrize("linked", [False, True])
async def test_ripgrep_below_tmp(desk: Any, temporary: Path, linked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ripgrep that is installed below /tmp, or linked from there, is found in the sandbox."""
    own = Searcher(Bubblewrap()).program
    assert own is not None
    program = temporary / "bin" / "rg"
    program.parent.mkdir()
    program.symlink_to(own) if linked else shutil.copy(own, program)
    monkeypatch.setattr(Searcher, "program", str(program))
    desk.write("a", "needle\n")
    assert await desk.call("grep", "workspace", pattern="needle") == "a:1:needle"


async def test_python_below_tmp(desk: Any, temporary: Path, venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ripgrep a search works from a virtual environment below /tmp, with our own files there too."""
    package = Path(halo_lib_files.__file__).parent
    shutil.copytree(package, temporary / "src" / package.name)
    monkeypatch.setattr(Searcher, "program", None)
    monkeypatch.setattr(sys, "executable", str(venv / "bin" / "python"))
    monkeypatch.setattr(sys, "prefix", str(venv))
    monkeypatch.setattr(halo_lib_files, "__file__", str(temporary / "src" / package.name / "__init__.py"))
    desk.write("a", "needle\n")
    assert await desk.call("grep", "workspace", pattern="needle") == "a:1:needle"


def test_a_tmp_that_is_a_link() -> None:
    """Where /tmp is a link, the sandbox works and replaces what it leads to."""
    outer = ["bwrap", "--tmpfs", "/", "--dir", "/real", "--symlink", "/real", "/tmp"]
    for name in sorted(set(os.listdir("/")) - {"tmp", "real"}):
        path = f"/{name}"
        outer += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--dev-bind", path, path]
    for path in sorted({path for path in (sys.prefix, *sys.path) if path.startswith("/tmp/") and os.path.isdir(path)}):
        outer += ["--ro-bind", path, path.replace("/tmp", "/real", 1)]  # this very checkout may lie there
    script = (
        "import subprocess\n"
        "from halo_tools.jail import Bubblewrap, Jail\n"
        "open('/real/theirs', 'w').close()\n"
        "jail = Jail(program='bwrap', workspace='/usr', writable=(), readable=(), hidden=(), masks=(), empty='/')\n"
        "command = ['/bin/sh', '-c', 'ls -A /real; echo > /tmp/f; ls /tmp/']\n"
        "argv = jail.argv(command, cwd='/', setenv={'PATH': '/usr/bin:/bin'})\n"
        "print([Bubblewrap().probe(), subprocess.run(argv, capture_output=True, text=True).stdout])\n"
    )
    done = subprocess.run([*outer, "--", sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "['', 'f\\n']\n", done


@pytest.mark.parametrize("field", ["hidden_dirs", "hidden_files", "writable_dirs"])
def test_a_relative_path_is_no_setting(field: str) -> None:
    """A folder in the settings begins with / or ~: a relative one would depend on where the server was started."""
    assert msgspec.convert({field: ["/a", "~/b"]}, ToolSettings)
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({field: ["a"]}, ToolSettings)
