"""`halo stop`: end the server of this home, cleanly if it can, and its supervisor."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from halo_kernel import HaloError, Stopping, default_home, is_served, read_presence
from halo_lib_client import Client

from .progress import waiting
from .supervision import clear, is_supervised, mark_stop, read_supervision
from .terminal import note, say

PATIENCE = 20.0
_FORCED_PATIENCE = 5.0
_STEP = 0.05


def command(argv: Sequence[str]) -> int:
    """Stop the server and wait for its end; what it was doing goes on at the next start."""
    parser = argparse.ArgumentParser(prog="halo stop", description="Stop the server of this home.")
    parser.add_argument("--force", action="store_true", help="kill it when it does not end by itself within 5 seconds")
    options = parser.parse_args(list(argv))
    home = default_home(os.environ)
    if not _runs(home):
        note(f"No server of {home} is running.")
        clear(home)
        return 1
    if end(home, _FORCED_PATIENCE if options.force else PATIENCE):
        say("Stopped.")
        return 0
    pid = _pid(home)
    if not options.force:
        note(f"The server (pid {pid}) has not ended after {PATIENCE:.0f} seconds. `halo stop --force` kills it.")
        return 1
    for victim in (_server, _supervisor):  # a supervisor that does not hang ends when its server does
        with suppress(ProcessLookupError):
            if found := victim(home):
                os.kill(found, signal.SIGKILL)
        if end(home, _FORCED_PATIENCE):
            say("Killed.")
            return 0
    note(f"The server (pid {pid}) could not be killed.")
    return 1


def end(home: Path, seconds: float) -> bool:
    """Ask whatever runs for a home to end, and tell whether it has in time; no supervisor starts another server.

    A server that is starting is asked as soon as it listens.
    """
    asked: set[int] = set()
    deadline = time.monotonic() + seconds
    with waiting("Stopping the server"):
        while _runs(home):
            if time.monotonic() >= deadline:
                return False
            pid = _pid(home)
            mark_stop(home, pid)
            if is_served(home) and pid not in asked and read_presence(home) is not None:
                asked.add(pid)
                # One that hangs never answers: it is asked beside, and only its end is waited for.
                threading.Thread(target=ask, args=(home, pid), daemon=True).start()
            time.sleep(_STEP)
    clear(home)
    return True


def ask(home: Path, pid: int) -> None:
    """Ask the server to stop; one that refuses us, such as after too many wrong passwords, is told by a signal."""
    try:
        Client(home).post("/api/server/stop")
    except Stopping:
        return
    except HaloError:
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def _runs(home: Path) -> bool:
    return is_served(home) or is_supervised(home)


def _pid(home: Path) -> int:
    """Return the process id that the server wrote down, or its supervisor; 0 for none."""
    presence, supervision = read_presence(home), read_supervision(home)
    return presence.pid if presence else supervision.server if supervision else 0


def _server(home: Path) -> int:
    return _pid(home) if is_served(home) else 0


def _supervisor(home: Path) -> int:
    supervision = read_supervision(home) if is_supervised(home) else None
    return supervision.pid if supervision else 0
