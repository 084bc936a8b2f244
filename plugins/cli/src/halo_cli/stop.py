"""`halo stop`: end the server of this home, cleanly if it can."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from halo_kernel import Client, HaloError, Stopping, default_home, find_server, is_served, read_presence

from .terminal import note

_PATIENCE = 20.0
_FORCED_PATIENCE = 5.0


def command(argv: Sequence[str]) -> int:
    """Stop the server and wait for its end; what it was doing goes on at the next start."""
    parser = argparse.ArgumentParser(prog="halo stop", description="Stop the server of this home.")
    parser.add_argument("--force", action="store_true", help="kill it when it does not end by itself within 5 seconds")
    options = parser.parse_args(list(argv))
    home = default_home(os.environ)
    client, presence = find_server(home), read_presence(home)
    if client is None or presence is None:
        note(f"No server of {home} is running.")
        return 1
    pid = presence.pid
    # A server that hangs never answers: it is asked beside, and only its end is waited for.
    threading.Thread(target=_ask, args=(client, pid), daemon=True).start()
    if _ended(home, _FORCED_PATIENCE if options.force else _PATIENCE):
        print("Stopped.")
        return 0
    if not options.force:
        note(f"The server (pid {pid}) has not ended after {_PATIENCE:.0f} seconds. `halo stop --force` kills it.")
        return 1
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    killed = _ended(home, _FORCED_PATIENCE)
    print("Killed." if killed else f"The server (pid {pid}) could not be killed.")
    return 0 if killed else 1


def _ask(client: Client, pid: int) -> None:
    """Ask the server to stop; one that refuses us, such as after too many wrong passwords, is told by a signal."""
    try:
        client.post("/api/server/stop")
    except Stopping:
        return
    except HaloError:
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def _ended(home: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_served(home):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True
