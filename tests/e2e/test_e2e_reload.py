"""`halo plugins reload` on a real server: every plugin that can be swapped is, again and again, and nothing is left."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from .commands import Halo

ROUNDS = 8  # times the plugins of the standard set: about 70 swaps
SWAPPED = ("workspace", "tools", "search", "api", "signin", "web", "offline", "openai")


def held(pid: int) -> tuple[int, int]:
    """Return how many descriptors and threads a process has, once these are the same for a second."""
    found = -1, -1
    for _ in range(30):
        former, found = found, (len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")))
        if found == former:
            break
        time.sleep(1)
    return found


def ask(halo: Halo, folder: Path) -> str:
    done = halo.run("run", "-w", str(folder), "--format", "json", "Which files are here?")
    assert done.code == 0, done.err
    return str(json.loads(done.out)["text"])


def test_every_plugin_is_swapped_again_and_again(halo: Halo, tmp_path: Path) -> None:
    """Each swap leaves a server that answers as before, with no more descriptors and threads than it had."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "heron.txt").write_text("a heron")
    server = halo.start("serve", "--port", "0")
    server.expect("ready on")
    assert "heron.txt" in ask(halo, folder)
    pid = server.process.pid
    before: tuple[int, int] | None = None
    for _ in range(ROUNDS):
        done = halo.run("plugins", "reload", *SWAPPED)
        assert done.code == 0, done.err
        assert "heron.txt" in ask(halo, folder)
        before = before or held(pid)  # the first round may import what was not needed yet
    descriptors, threads = held(pid)
    assert descriptors <= before[0] + 2 and threads <= before[1] + 1, (before, descriptors, threads)
    assert halo.run("plugins").out.count(": loaded") >= len(SWAPPED)
    listed = json.loads(halo.run("plugins", "--json").out)
    assert {row["state"] for row in listed if row["name"] in SWAPPED} == {"loaded"}
