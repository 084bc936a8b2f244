"""A fresh clone on a fresh machine: the README's commands, as they stand there, lead to what it says."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from .commands import Halo, Running, unavailable
from .trees import QUESTION
from .visitors import Visitor, text_of, tools_of

ROOT = Path(__file__).resolve().parents[2]
INSTALL, COLD = "pip install uv && ", 400.0
ORDINARY = "nobody"

pytestmark = [
    pytest.mark.no_model,
    pytest.mark.needs("git"),
    pytest.mark.timeout(COLD + 100),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no git checkout"),
]


def commands() -> list[str]:
    """Return the commands that the README begins with the installation of uv, in order, without that part."""
    found = re.findall(rf"{re.escape(INSTALL)}([^`\n]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(found) == 2
    return [command.strip() for command in found]


@dataclass(frozen=True)
class Stranger:
    """Somebody who has a clone and uv, and nothing else of ours."""

    halo: Halo
    clone: Path
    words: Sequence[str]

    def start(self, command: str) -> Running:
        """Type a command on a terminal in the clone."""
        self.halo.program = [*self.words, *shlex.split(command)]
        return self.halo.start(cwd=self.clone, terminal=True)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the clone to its end."""
        words = [*self.words, *shlex.split(command)]
        return subprocess.run(words, cwd=self.clone, env=self.halo.env, capture_output=True, text=True, timeout=COLD)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may look into, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="halo-clone-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["this user", "an ordinary user"])
def stranger(request: pytest.FixtureRequest, place: Path) -> Iterator[Stranger]:
    """A person with a new HOME and a clone; run by root, once as root and once as an ordinary user."""
    ordinary = request.param != "this user"
    if ordinary and os.geteuid() != 0:
        pytest.skip("only root can become another user, and this user is one already")
    if ordinary and shutil.which("setpriv") is None:
        unavailable("setpriv is not installed here")
    words = ["setpriv", f"--reuid={ORDINARY}", "--regid=nogroup", "--clear-groups"] if ordinary else []
    clone, home, programs = place / "halo", place / "home", place / "bin"
    git = ["git", "-c", f"safe.directory={ROOT}/.git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}"]
    subprocess.run([*git, str(clone)], check=True)
    for folder in (home, programs):
        folder.mkdir()
    shutil.copy2(uv(), programs / "uv")
    env = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "HALO_PORT": "0", "UV_PYTHON_DOWNLOADS": "never"}
    env |= {"UV_PYTHON": interpreter(words), "UV_CACHE_DIR": str(home / "cache") if ordinary else cache()}
    halo = Halo(home, env=env)
    for name in [name for name in halo.env if name in ("UV_CONSTRAINT", "UV_BUILD_CONSTRAINT", "UV")]:
        del halo.env[name]
    if ordinary:
        give(place, ORDINARY)
    yield Stranger(halo, clone, words)
    halo.close()


def uv() -> Path:
    """Return the program uv itself, not a script that looks for it."""
    folders = [*os.environ["PATH"].split(os.pathsep), f"{sys.base_prefix}/bin", str(Path.home() / ".local/bin")]
    for path in [Path(os.environ.get("UV", "")), *(Path(folder, "uv") for folder in folders)]:
        if path.is_file() and path.read_bytes()[:2] != b"#!":
            return path
    pytest.fail("uv is not installed here: pip install uv")


def cache() -> str:
    """Return uv's cache on this machine: a second clone by the same user finds it filled."""
    return subprocess.run([str(uv()), "cache", "dir"], check=True, capture_output=True, text=True).stdout.strip()


def interpreter(words: Sequence[str]) -> str:
    """Return a Python that this user may run."""
    check = "'import sys; sys.exit(sys.version_info < (3, 11))'"
    for path in (f"{sys.base_prefix}/bin/python3", "/usr/bin/python3", "/usr/local/bin/python3"):
        # By a shell of that user: setpriv takes another Python from the PATH where this one may not be run.
        if not subprocess.run([*words, "sh", "-c", f"{path} -c {check}"], capture_output=True).returncode:
            return path
    unavailable("no Python from 3.11 on is here that an ordinary user may run")


def give(folder: Path, user: str) -> None:
    """Make a user the owner of all below a folder."""
    owner = pwd.getpwnam(user)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)


def test_the_first_command_leads_to_a_page_that_answers(stranger: Stranger) -> None:
    """The README's first command ends in a page that answers from the clone's own files, and Ctrl-C ends it."""
    up = stranger.start(commands()[0])
    up.expect(r"Ctrl-C to stop\.", seconds=COLD)
    assert "No model is running: built-in rules answer" in up.out
    visitor = Visitor(up.link)
    assert "<title>Halo</title>" in visitor.page
    frames = visitor.ask(QUESTION)
    answer = text_of(frames)
    assert frames[-1]["type"] == "complete" and frames[-1]["outcome"] == "succeeded"
    assert tools_of(frames)[0] == "file_list" and "file_read" in tools_of(frames)
    names = {path.name for path in stranger.clone.iterdir()} - {".git"}
    assert names >= {"README.md", "kernel", "plugins", "tests"}
    assert [name for name in names if name not in answer] == []
    title, _, opening, *_ = (stranger.clone / "README.md").read_text(encoding="utf-8").splitlines()
    assert f"“{title.removeprefix('# ')}”" in answer and opening in answer
    owner = {path.stat().st_uid for path in (stranger.halo.halo_home, stranger.clone / ".halo")}
    assert owner == {pwd.getpwnam(ORDINARY).pw_uid if stranger.words else os.geteuid()}
    up.press("\x03")
    assert up.end().code == 0
    assert stranger.halo.gone()
    if not stranger.words:
        the_second_command_knows_its_environments(stranger)


def the_second_command_knows_its_environments(stranger: Stranger) -> None:
    """The README's second command starts: it lists what it would run, and that is everything."""
    command = commands()[1]
    assert stranger.run(f"{command} --version").returncode == 0
    listed = stranger.run(f"{command} -l")
    assert listed.returncode == 0, listed.stderr
    plugins = {f"plugin-{folder.name}" for folder in (stranger.clone / "plugins").iterdir()}
    assert {"lint", "types", "arch", "docs", "kernel-py311", "kernel-py313", "e2e", "crash"} | plugins <= set(
        listed.stdout.split()
    )
