"""Starting a server as a process of its own, and waiting until it is ready."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from halo_kernel import Client, HaloError, find_server


class ServerFailed(HaloError):
    """The server ended before it was ready; its own words are in the message, or went to stderr."""


def start(options: Sequence[str], *, home: Path, detach: bool) -> tuple[subprocess.Popen[bytes], Client]:
    """Start a server and return its process and a client of it.

    It ends with this process, unless `detach`: then it outlives it, and its stderr goes to `<home>/logs/server.log`.
    Ctrl-C on the terminal does not reach it: we `end` it then. Raises `ServerFailed`.
    """
    log = _detached_log(home) if detach else None
    ready, told = os.pipe()
    process = _spawn([*options, "--ready-fd", str(told)], told, home=home, log=log)
    os.close(told)
    try:
        with os.fdopen(ready, "rb") as pipe:
            url = pipe.readline()
        client = find_server(home) if url else None
        if client is None:
            code = process.wait()
            raise ServerFailed(_words(log) if log else f"the server did not start (exit code {code})")
    except BaseException:
        end(process)
        raise
    return process, client


def _spawn(options: Sequence[str], told: int, *, home: Path, log: Path | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "halo_kernel", "serve", "--home", str(home), *options]
    quiet, told_us = subprocess.DEVNULL, (told,)
    if log is None:
        command += ["--parent-pid", str(os.getpid())]
        return subprocess.Popen(command, stdin=quiet, stdout=quiet, pass_fds=told_us, process_group=0)
    with log.open("wb") as errors:
        return subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=errors, pass_fds=told_us, start_new_session=True
        )


def _detached_log(home: Path) -> Path:
    folder = home / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServerFailed(
            f"the home {home} cannot be used: {error.strerror}",
            advice="set HALO_HOME to a folder that you may write to",
        ) from error
    return folder / "server.log"


def _words(log: Path) -> str:
    """Return what a detached server said last."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].removeprefix("halo: ") if lines else "the server did not start, and did not say why"


def wait(process: subprocess.Popen[bytes]) -> int:
    """Return a server's exit code when it has ended; as shells do, 128 and more for one that a signal killed."""
    code = process.wait()
    return code if code >= 0 else 128 - code


def end(process: subprocess.Popen[bytes]) -> int:
    """Ask a server that we started to end, and return its exit code."""
    process.terminate()
    return wait(process)
