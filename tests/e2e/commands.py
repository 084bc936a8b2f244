"""The command `halo` as a person runs it: a real process with a home of its own, and no key that this machine has."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

PROGRAM = Path(sys.executable).with_name("halo")
SECONDS = 60.0
LINK = re.compile(r"http://\S+/auth/link\?token=\S+")
_OURS = re.compile(r"HALO_.*|OPENAI_.*|.*_API_KEY|DISPLAY|WAYLAND_DISPLAY|BROWSER|VIRTUAL_ENV|TOX_.*|PYTEST_.*")


def unavailable(reason: str) -> NoReturn:
    """End a test that this machine cannot run: skipped, but failed in CI, which must be able to."""
    if os.environ.get("HALO_CI"):
        pytest.fail(f"CI must be able to run this: {reason}", pytrace=False)
    pytest.skip(reason)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what tells Halo, or a browser, anything."""
    return {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Running:
    """A command that runs; what it writes is collected while it does."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, terminal: bool = False) -> None:
        self._changed = threading.Condition()
        self._texts = {"out": "", "err": ""}
        self._keyboard = -1
        self.process = self._on_terminal(command, env, cwd) if terminal else self._piped(command, env, cwd)

    def _piped(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        assert process.stdout is not None and process.stderr is not None
        self._readers = [
            self._reader(process.stdout.fileno(), "out"),
            self._reader(process.stderr.fileno(), "err"),
        ]
        return process

    def _on_terminal(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
        self._keyboard, screen = pty.openpty()
        process = subprocess.Popen(
            command, env={**env, "TERM": "dumb"}, cwd=cwd, preexec_fn=lambda: os.login_tty(screen), pass_fds=(screen,)
        )
        os.close(screen)
        self._readers = [self._reader(self._keyboard, "out")]
        return process

    def _reader(self, descriptor: int, name: str) -> threading.Thread:
        thread = threading.Thread(target=self._read, args=(descriptor, name), daemon=True)
        thread.start()
        return thread

    def _read(self, descriptor: int, name: str) -> None:
        raw = b""
        with suppress(OSError):  # a terminal whose last program has ended
            while chunk := os.read(descriptor, 65_536):
                raw += chunk
                with self._changed:
                    self._texts[name] = raw.decode("utf-8", "replace").replace("\r\n", "\n")
                    self._changed.notify_all()

    @property
    def out(self) -> str:
        """What it has written to stdout so far; on a terminal, to the screen."""
        return self._texts["out"]

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return self._texts["err"]

    def expect(self, pattern: str, *, on: str = "out", seconds: float = SECONDS) -> str:
        """Wait until a pattern has been written, and return what matches it."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not (found := re.search(pattern, self._texts[on])):
                assert self.process.poll() is None or self._alive(), f"it ended: {self._texts}"
                assert time.monotonic() < deadline, f"{pattern!r} was not written: {self._texts}"
                self._changed.wait(0.1)
        return found[0]

    def _alive(self) -> bool:
        """Tell whether some of its output may still be on its way."""
        return any(reader.is_alive() for reader in self._readers)

    @property
    def link(self) -> str:
        """The one-time link that `halo up` prints."""
        return self.expect(LINK.pattern)

    def press(self, keys: str) -> None:
        """Type on its terminal."""
        os.write(self._keyboard, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 30) -> Done:
        """Wait for its end."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(1)  # a server that it left behind may hold the pipe open
        return Done(code, self.out, self.err)

    def close(self) -> None:
        """End it, however it stands."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._keyboard >= 0:
            os.close(self._keyboard)
            self._keyboard = -1


class Halo:
    """One person: a HOME, and commands in it. `prefix` are words before the program, such as those of another user."""

    def __init__(
        self,
        home: Path,
        *,
        program: Sequence[str] = (str(PROGRAM),),
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.home = home
        self.program = [*prefix, *program]
        self.env = {**clean_environment(), "HOME": str(home), "LANG": "C.UTF-8", **(env or {})}
        self._running: list[Running] = []

    @property
    def halo_home(self) -> Path:
        """Where Halo keeps its own files for this person."""
        return self.home / ".halo"

    def run(self, *words: str, cwd: Path | None = None, input: str = "", seconds: float = SECONDS) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            [*self.program, *words],
            env=self.env,
            cwd=cwd or self.home,
            input=input.encode(),
            capture_output=True,
            timeout=seconds,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str, cwd: Path | None = None, terminal: bool = False) -> Running:
        """Start a command and return at once."""
        running = Running([*self.program, *words], env=self.env, cwd=cwd or self.home, terminal=terminal)
        self._running.append(running)
        return running

    def up(self, tree: Path, *words: str, terminal: bool = False) -> Running:
        """Start `halo up` in a tree, on any free port, and wait until it has printed the link."""
        running = self.start("up", "--no-browser", "--port", "0", "-w", str(tree), *words, terminal=terminal)
        running.expect(r"Ctrl-C to stop\.|`halo stop` stops it\.")
        return running

    def processes(self) -> list[int]:
        """Return the processes of this HOME that run."""
        mark = f"HOME={self.home}\0".encode()
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes() and _state(folder) != "Z":
                    found.append(int(folder.name))
        return found

    def gone(self, seconds: float = 10) -> bool:
        """Tell whether no process of this HOME is left, after a moment of patience."""
        deadline = time.monotonic() + seconds
        while self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """End everything that was started here."""
        for running in self._running:
            running.close()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _state(folder: Path) -> str:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0]
