"""`halo password`, from a pipe and on a terminal."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from halo_kernel import load_kernel_settings
from halo_signin.hashing import matches

COMMAND = [sys.executable, "-m", "halo_kernel", "password"]
GOOD = "correct horse 1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def pipe(home: Path, text: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HALO_HOME": str(home), **env}
    return subprocess.run(
        [*COMMAND, *arguments], input=text, env=environment, capture_output=True, text=True, timeout=30
    )


def password_of(home: Path) -> str | None:
    secret = load_kernel_settings(home, {}).of(_server()).password
    return None if secret is None else secret.reveal()


def _server() -> type:
    from halo_kernel import ServerSettings

    return ServerSettings


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_pipe_sets_the_password(home: Path, end: str) -> None:
    """One line from a pipe is the password; it is stored as a hash that only this user can read."""
    done = pipe(home, GOOD + end)
    assert (done.returncode, done.stderr) == (0, "")
    stored = password_of(home)
    assert stored is not None
    assert matches(stored, GOOD)
    file = home / "secrets" / "settings.yaml"
    assert GOOD not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_a_person_wrote_stays(home: Path) -> None:
    """Comments, other keys, and sections of plugins that this command does not know stay as they are."""
    file = home / "secrets" / "settings.yaml"
    file.parent.mkdir(parents=True)
    text = "# mine\nserver:\n  port: 9000 # why\nopenai:\n  base_url: http://x\n"
    file.write_text(text)
    done = pipe(home, GOOD)
    assert (done.returncode, done.stderr) == (0, "")
    changed = file.read_text()
    assert [line for line in changed.splitlines() if "password" not in line] == text.splitlines()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "8 characters"), ("short1", "8 characters"), ("12345678", "letter"), ("abcdefgh", "digit")],
)
def test_a_weak_password_changes_nothing(home: Path, text: str, sentence: str) -> None:
    """The sentence names the rule; the exit code is 1."""
    done = pipe(home, text)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert password_of(home) is None


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_password_that_is_no_text_changes_nothing(home: Path, errors: str) -> None:
    """No browser could send it: bytes that are not UTF-8 are refused in one sentence."""
    environment = {**os.environ, "HALO_HOME": str(home), "PYTHONIOENCODING": f"utf-8:{errors}"}
    given = b"correct horse 1\xff\n"
    done = subprocess.run(COMMAND, input=given, env=environment, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (1, b"halo: The password must be UTF-8 text. Nothing was changed.\n")
    assert password_of(home) is None


def test_the_variable_goes_first(home: Path) -> None:
    """While `HALO_PASSWORD` is set a stored password would not count, so none is stored."""
    done = pipe(home, GOOD, HALO_PASSWORD="x")
    assert done.returncode == 1
    assert "HALO_PASSWORD" in done.stderr
    assert password_of(home) is None


def test_a_broken_file_is_named(home: Path) -> None:
    """A settings file that cannot be read is one sentence with file and line, and stays as it is."""
    file = home / "secrets" / "settings.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("server: [\n")
    done = pipe(home, GOOD)
    assert done.returncode == 1
    assert "settings.yaml:" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_text() == "server: [\n"


def test_help_says_the_rules(home: Path) -> None:
    """`--help` explains what is read and what a password needs; a wrong option is 2."""
    assert "8 characters" in pipe(home, "", "--help").stdout
    assert pipe(home, "", "--nonsense").returncode == 2


def on_terminal(home: Path, *answers: str) -> tuple[int, str]:
    """Type answers at each prompt on a real terminal; return the exit code and what was shown."""
    import fcntl
    import pty
    import termios

    outer, inner = pty.openpty()
    environment = {**os.environ, "HALO_HOME": str(home)}
    process = subprocess.Popen(
        COMMAND,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(inner)
    shown, waiting = b"", list(answers)
    deadline = time.monotonic() + 30
    prompts, typed = 0, 0.0
    try:
        while time.monotonic() < deadline:
            if not select.select([outer], [], [], 0.1)[0]:
                if process.poll() is not None:
                    break
                if not waiting and answers[-1] == "\x03" and time.monotonic() > typed + 3:
                    typed = time.monotonic()  # one that comes just before the read blocks ends nothing
                    os.write(outer, b"\x03")
                continue
            try:
                piece = os.read(outer, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
            while shown.count(b": ") > prompts and waiting:
                prompts += 1
                time.sleep(0.1)
                typed = time.monotonic()
                os.write(outer, waiting.pop(0).encode() + (b"" if answers[prompts - 1] == "\x03" else b"\n"))
        return process.wait(timeout=10), shown.decode()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(outer)


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal")
class TestTerminal:
    """On a terminal."""

    def test_it_asks_twice_and_shows_nothing(self, home: Path) -> None:
        """The password is asked for twice, and is not shown."""
        code, shown = on_terminal(home, GOOD, GOOD)
        assert code == 0, shown
        assert GOOD not in shown
        assert "The password is set" in shown
        assert matches(password_of(home) or "", GOOD)

    def test_two_different_ones_change_nothing(self, home: Path) -> None:
        """A slip is told, and nothing is stored."""
        code, shown = on_terminal(home, GOOD, GOOD + "x")
        assert code == 1
        assert "not the same" in shown
        assert password_of(home) is None

    def test_ctrl_c_changes_nothing(self, home: Path) -> None:
        """Ctrl-C ends with 130 and without a traceback."""
        code, shown = on_terminal(home, "\x03")
        assert code == 130
        assert "Traceback" not in shown
        assert password_of(home) is None
