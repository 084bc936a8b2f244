"""The process beside a server in the background: it starts the server, and starts it again after a crash.

It stays small: what it may never need is imported where it is used.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from .launch import errors_of, private, spawn
from .respawn import LIMIT, WINDOW, describe, is_crash, next_pause
from .supervision import Supervision, forget, is_told_to_stop, write_supervision

_STEP = 0.1
_LARGEST = 1_000_000
_SENTENCE = "halo: "
_TEXT = "time={time} level={level} [{module}] {message}"


def main(argv: Sequence[str]) -> int:
    """Supervise the server of a home until somebody stops it, or it crashes too often: then return 1.

    The arguments are the home, the descriptor of `take_over`, one for the address or why there is none, and options of
    the server.
    """
    home, ready, options = Path(argv[0]), int(argv[2]), argv[3:]
    if os.fork():  # so that nobody has to wait for us, and no terminal can become ours
        os._exit(0)

    def tell(words: str) -> None:
        with suppress(OSError), open(ready, "w", encoding="utf-8") as pipe:
            pipe.write(f"{words}\n")

    return Supervisor(home, options, tell=tell).run()


class _Bell:
    """Signals as something to wait for; they interrupt nothing.

    SIGTERM and SIGINT ask us to end, the second one for certain. SIGCHLD tells that the server has ended. SIGHUP means
    nothing to us.
    """

    def __init__(self) -> None:
        self.asked = False
        self._rung, ring = os.pipe()
        os.set_blocking(self._rung, False)
        os.set_blocking(ring, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, self._ring)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self.asked = True
            signal.signal(number, signal.SIG_DFL)

    def wait(self, seconds: float | None = None, file: BinaryIO | None = None) -> bool:
        """Wait for a signal, for a file that can be read, at most some seconds; tell whether the file can be."""
        files = [self._rung] if file is None else [self._rung, file.fileno()]
        readable, _, _ = select.select(files, [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._rung, 1024)
        return files[-1] in readable and file is not None


class Supervisor:
    """Starts the server of a home as often as it must. `tell` gets its first address, or why there is none."""

    def __init__(self, home: Path, options: Sequence[str], *, tell: Callable[[str], None]) -> None:
        self._home = home
        self._options = list(options)
        self._tell = tell
        self._bell = _Bell()
        self._record = Supervision(pid=os.getpid())
        self._said_before = 0

    def run(self) -> int:
        """Keep the server running; return 0 when it was stopped, 1 when it could not be kept."""
        process, address = self._start()
        if not address:
            process.wait()
            self._tell(self._last_words())
            return self._leave(1)
        self._options += ["--port", str(urlsplit(address).port)]  # people have its pages open
        self._tell(address)
        return self._keep(process)

    def _keep(self, process: subprocess.Popen[bytes]) -> int:
        restarts: list[float] = []
        reason = self._crash_of(process)
        while reason:
            pause = next_pause(restarts, time.monotonic())
            if pause is None:
                return self._give_up(reason)
            self._log(f"{reason}; it is started again in {pause:g} s")
            if not self._rest(pause, reason):
                break
            restarts.append(time.monotonic())
            try:
                reason = self._crash_of(self._start()[0])
            except OSError as error:  # such as no memory for another process, which may pass
                reason = f"the server could not be started: {error.strerror}"
        return self._leave(0)

    def _crash_of(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end of a server; return why it is to be started again, '' when it is not."""
        code = self._end_of(process)
        if not is_crash(code) or self._is_told():
            return ""
        words = self._last_words()
        return f"the server (pid {process.pid}) {describe(code)}" + (f": {words}" if words else "")

    def _start(self) -> tuple[subprocess.Popen[bytes], str]:
        """Start a server, and return it and its address: '' when it ends, or is told to, before it has one."""
        if os.fstat(2).st_size > _LARGEST:
            os.ftruncate(2, 0)
        self._said_before = os.fstat(2).st_size
        process, pipe = spawn(["--quiet", *self._options], home=self._home)
        self._note(server=process.pid, next_start=0)
        with pipe:
            while not self._bell.wait(_STEP, pipe):
                if self._is_told():
                    process.terminate()
                    return process, ""
            return process, pipe.readline().decode().strip()

    def _end_of(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the end of a server, which we bring about when we are asked to end; return its exit code."""
        is_asked = False
        while (code := process.poll()) is None:
            if self._bell.asked and not is_asked:
                from .stop import ask

                is_asked = True
                threading.Thread(target=ask, args=(self._home, process.pid), daemon=True).start()
            self._bell.wait()
        return code

    def _rest(self, seconds: float, reason: str) -> bool:
        """Wait before a restart; tell whether it is still wanted."""
        from halo_kernel import is_served

        until, restarts = time.monotonic() + seconds, self._record.restarts + 1
        self._note(reason=reason, next_start=_now() + int(seconds * 1000), restarts=restarts)
        while (left := until - time.monotonic()) > 0 and not self._is_told():
            self._bell.wait(min(_STEP, left))
        if is_served(self._home):
            self._log("another server serves this home now; this one is not started again")
            return False
        return not self._is_told()

    def _is_told(self) -> bool:
        return self._bell.asked or is_told_to_stop(self._home, self._record)

    def _give_up(self, reason: str) -> int:
        self._log(f"{reason}; after {LIMIT} restarts in {WINDOW / 60:g} minutes it is not started again")
        self._note(reason=reason, gave_up=_now())
        return 1

    def _leave(self, code: int) -> int:
        forget(self._home)
        return code

    def _note(self, **changes: Any) -> None:
        self._record = replace(self._record, **changes)
        write_supervision(self._home, self._record)

    def _last_words(self) -> str:
        """Return the sentence with which the server ended, '' if it said none: a traceback may hold secrets."""
        said = b""
        with suppress(OSError), open(errors_of(self._home), "rb") as errors:
            errors.seek(self._said_before)
            said = errors.read()
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return last.removeprefix(_SENTENCE) if last.startswith(_SENTENCE) else ""

    def _log(self, message: str) -> None:
        """Add a line to the server's log, in its format."""
        from halo_kernel import HaloError, LogSettings, load_kernel_settings

        try:
            is_json = load_kernel_settings(self._home, os.environ).of(LogSettings).format == "json"
        except HaloError:  # which the server has said
            is_json = False
        line = {"time": datetime.now(UTC).isoformat(), "level": "error", "module": "respawn", "message": message}
        text = json.dumps(line, ensure_ascii=False) if is_json else _TEXT.format_map(line)
        path = self._home / "global" / "logs" / "server.log"
        with suppress(OSError), open(path, "a", encoding="utf-8", opener=private) as log:
            log.write(f"{text}\n")


def _now() -> int:
    return int(time.time() * 1000)
