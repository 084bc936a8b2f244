"""A server as a process. The supervisor needs this, and is small: nothing of the kernel is imported here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

# No module of ours is looked for in the current folder: it may be a workspace, and hold anything.
PYTHON = (sys.executable, "-P")


def spawn(options: Sequence[str], *, home: Path) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """Start a server in a process group of its own; its stderr is ours.

    Returns its process, and a pipe that gives its address when it is ready, nothing when it has ended before.
    """
    ready, told = os.pipe()
    command = [*PYTHON, "-m", "halo_kernel", "serve", "--home", str(home), "--ready-fd", str(told), *options]
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=quiet, stdout=quiet, pass_fds=(told,), process_group=0)
    finally:
        os.close(told)
    return process, os.fdopen(ready, "rb")


def errors_of(home: Path) -> Path:
    """Return where a server in the background, and its supervisor, say what ended them, such as a traceback."""
    return home / "global" / "logs" / "server.err"


def private(path: str, flags: int) -> int:
    """Open a file that only its owner can read; the `opener` of `open`."""
    return os.open(path, flags, 0o600)


def wait(process: subprocess.Popen[bytes]) -> int:
    """Return a server's exit code when it has ended; as shells do, 128 and more for one that a signal killed."""
    code = process.wait()
    return code if code >= 0 else 128 - code


def end(process: subprocess.Popen[bytes]) -> int:
    """Ask a server that we started to end, and return its exit code."""
    process.terminate()
    return wait(process)
