"""Starting a server, or a supervisor that does, and waiting until it is ready."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from halo_kernel import HaloError, ensure_home
from halo_lib_client import Client, find_server

from .launch import PYTHON, end, errors_of, private, spawn
from .supervision import take_over

# A plugin may lie in a folder that `halo` itself has added to the path.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from halo_cli.supervisor import main; sys.exit(main(sys.argv[2:]))"
)


class ServerFailed(HaloError):
    """The server ended before it was ready; its own words are in the message, or went to stderr."""


def start(options: Sequence[str], *, home: Path) -> tuple[subprocess.Popen[bytes], Client]:
    """Start a server that ends with this process, and return its process and a client of it. Raises `ServerFailed`.

    Ctrl-C on the terminal does not reach it: we `end` it then.
    """
    process, pipe = spawn([*options, "--parent-pid", str(os.getpid())], home=home)
    try:
        with pipe:
            url = pipe.readline()
        client = find_server(home) if url else None
        if client is None:
            raise ServerFailed(f"the server did not start (exit code {process.wait()})")
    except BaseException:
        end(process)
        raise
    return process, client


def start_supervised(options: Sequence[str], *, home: Path) -> Client:
    """Start a server in the background, under a supervisor that outlives us, and return a client of it.

    Raises `ServerFailed`, also when there is a supervisor already.
    """
    if os.name != "posix":
        raise HaloError("this system has no servers in the background", advice="run `halo up` without `-d`")
    try:
        lock = take_over(ensure_home(home))
        if lock is None:
            raise ServerFailed(f"the server of the home {home} has a supervisor, which is starting it")
        with _supervisor(options, home, lock) as pipe:
            words = pipe.readline().rstrip("\n")
    except OSError as error:
        raise ServerFailed(
            f"the home {home} cannot be used: {error.strerror}",
            advice="set HALO_HOME to a folder that you may write to",
        ) from error
    client = find_server(home) if words.startswith("http") else None
    if client is None:
        why = f"the server did not start; {errors_of(home)} may say why"
        raise ServerFailed(words or why, advice="" if words else "`halo doctor` looks at what it needs")
    return client


def _supervisor(options: Sequence[str], home: Path, lock: int) -> TextIO:
    """Start a supervisor, which takes the lock over; return a pipe with its words on how the server started."""
    ready, told = os.pipe()
    place = str(Path(__file__).parents[1])
    command = [*PYTHON, "-c", _PROGRAM, place, str(home), str(lock), str(told), *options]
    quiet, ours = subprocess.DEVNULL, (lock, told)
    try:
        with open(errors_of(home), "ab", opener=private) as errors:
            first = subprocess.Popen(
                command, stdin=quiet, stdout=quiet, stderr=errors, pass_fds=ours, start_new_session=True
            )
        first.wait()  # it goes on as another process
    finally:
        os.close(lock)
        os.close(told)
    return os.fdopen(ready, encoding="utf-8")
