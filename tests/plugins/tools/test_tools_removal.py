"""The guard before `rm`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_tools.removal import forbidden_removal

WORKSPACE = "/srv/people/anna/project"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")


def judge(command: str) -> str:
    return forbidden_removal(command, workspace=WORKSPACE, home="/home/anna/.halo")


BLOCKED = {
    "rm -rf /": "the root of the file system",
    "rm -rf /*": "the root of the file system",
    "rm -rf -- /": "the root of the file system",
    "rm / -rf": "the root of the file system",
    "rm -rf //": "the root of the file system",
    "rm -rf ~": "your home folder",
    "rm -rf ~/": "your home folder",
    "rm -rf ~/*": "your home folder",
    "rm -rf ~/.??*": "your home folder",
    'rm -rf "$HOME"': "your home folder",
    "rm -rf ${HOME}/": "your home folder",
    "rm -rf ~/.halo": "where Halo keeps its own files",
    "rm -rf .": "the workspace itself",
    "rm -rf ./*": "the workspace itself",
    "rm -rf *": "the workspace itself",
    "rm -rf $PWD": "the workspace itself",
    'rm -rf "$(pwd)"': "the workspace itself",
    f"rm -rf {WORKSPACE}/": "the workspace itself",
    "rm -rf sub/..": "the workspace itself",
    "rm -rf .halo": "where Halo keeps this workspace's sessions",
    "rm .halo/halo.db-wal": "one of Halo's databases",
    "rm -rf ..": "above /srv/people/anna/project",
    "rm -rf /srv/people": "above /srv/people/anna/project",
    "rmdir /home": "above /home/anna",
    "rm -rf /usr": "a folder of the system",
    "rm -rf /usr/lib": "directly in the system's /usr",
    "rm /etc/passwd": "directly in the system's /etc",
    "rm /etc/*.conf": "directly in the system's /etc",
    "rm -rf /home/bob": "directly in the system's /home",
    "rm -rf /tmp": "a folder of the system",
    "rm -rf /tmp/*": "a folder of the system",
    "cd / && rm -rf usr": "a folder of the system",
    "cd /usr; cd lib; rm -rf ../bin": "directly in the system's /usr",
    "cd; rm -rf .halo": "where Halo keeps its own files",
    "cd /usr\nrm -rf *": "a folder of the system",
    '(cd /tmp; true); rm -rf "../project"': "the workspace itself",
    "X=/; rm -rf $X": "the root of the file system",
    "rm -rf $UNSET/": "the root of the file system",
    'rm -rf "$UNSET"/*': "the root of the file system",
    "rm -rf ${UNSET:-/usr}": "a folder of the system",
    "rm -rf /{usr,opt}": "a folder of the system",
    "sudo rm -rf /": "the root of the file system",
    "sudo -u root -n rm -rf /usr": "a folder of the system",
    "env A=1 nohup nice -n 5 rm -rf /usr": "a folder of the system",
    "timeout -s KILL 5s rm -rf /usr": "a folder of the system",
    "ls | xargs -n 1 rm -rf /usr": "a folder of the system",
    "A=1 /bin/rm -rf /usr": "a folder of the system",
    "\\rm -rf /usr": "a folder of the system",
    "'rm' -rf /us'r'": "a folder of the system",
    'bash -c "rm -rf /usr"': "a folder of the system",
    "sh -c 'cd /; rm -rf usr'": "a folder of the system",
    'eval "rm -rf /usr"': "a folder of the system",
    "echo $(rm -rf /usr)": "a folder of the system",
    "echo `rm -rf /usr`": "a folder of the system",
    "if true; then rm -rf /usr; fi": "a folder of the system",
    "for x in 1; do rm -rf /usr; done": "a folder of the system",
    "true && { rm -rf /usr; }": "a folder of the system",
    "true || rm -rf /usr > log 2>&1": "a folder of the system",
    "cat <<EOF\nhello\nEOF\nrm -rf /usr": "a folder of the system",
    "# nothing\nrm -rf /usr": "a folder of the system",
    "rm \\\n -rf /usr": "a folder of the system",
    "rm -rf build /usr": "a folder of the system",
}

ALLOWED = [
    "rm file",
    "rm -rf build node_modules/*",
    "rm *.o",
    "rm -rf build*",
    "rm -rf ./dist/",
    f"rm -rf {WORKSPACE}/build",
    "rm -rf ~/projects/old",
    "rm -rf /tmp/work /var/tmp/x/y",
    "rm -rf /usr/local/lib/thing",
    "rm -rf $UNSET",
    "rm -rf .halo/tmp",
    "echo rm -rf /",
    "echo 'rm -rf /'",
    "# rm -rf /",
    "cat <<EOF\nrm -rf /\nEOF",
    "cat <<'EOF' > file\nrm -rf /usr\nEOF\necho done",
    "git rm -r /usr",
    "grep rm / -r",
    "rm '*'",
    "rm \\*",
    "echo x > /usr",
    "rm file > /usr",
    "(cd /usr); rm -rf lib",
    "docker run --rm /usr",
    "rm",
    'rm ""',
    "cd build && rm -rf *",
]


@pytest.mark.parametrize("command", BLOCKED)
def test_what_nobody_means_is_blocked(command: str) -> None:
    """Removing the disk, the home, the workspace, what is above them, or the system's folders is refused by name."""
    reason = judge(command)
    assert reason.startswith("[Sandbox] rm blocked: ")
    assert BLOCKED[command] in reason


@pytest.mark.parametrize("command", ALLOWED)
def test_what_people_do_is_allowed(command: str) -> None:
    """Ordinary removals, and text that only speaks of removing, pass."""
    assert judge(command) == ""


def test_links_are_seen_through(tmp_path: Path) -> None:
    """What is below a linked folder, and a link with a slash behind it, is judged by where it leads."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to("/usr")
    home = str(tmp_path / "halo")
    for command in ("rm -rf link/", "rm -rf link/lib", "rm -rf link/*"):
        assert "usr" in forbidden_removal(command, workspace=str(workspace), home=home)
    assert forbidden_removal("rm link", workspace=str(workspace), home=home) == ""


@given(st.text("rm -f/~*.$(){}<>&|;`'\"\\\n #EOFx=", max_size=60))
def test_any_text_is_read(command: str) -> None:
    """Whatever a command looks like, the guard answers."""
    assert isinstance(judge(command), str)


@given(
    st.lists(st.sampled_from(["true", "echo 'a b'", "X=1", "cd build", "ls > out", "cat <<E\nrm /\nE\n"]), max_size=5)
)
def test_the_guard_is_not_lost_on_the_way(before: list[str]) -> None:
    """Whatever harmless commands come first, a removal of the system is seen."""
    assert judge("\n".join([*before, "rm -rf /usr"]))
