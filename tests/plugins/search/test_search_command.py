"""`halo sessions search`, as people type it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from halo_kernel import Incoming
from halo_kernel.testing import a_session, assert_plugin_ok, running_kernel

COMMAND = [sys.executable, "-m", "halo_kernel", "sessions", "search"]


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A home with the workspace `w` beside it, in which something was said."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for text in ("needle\x1b[2J in the title", "今天天气很好 🎉"):
            await session.prompt(Incoming(text=text)).result
    return tmp_path / "home"


def run(home: Path, *words: str, cwd: str = "w") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HALO_HOME": str(home)}
    command = [*COMMAND, *words]
    return subprocess.run(command, cwd=home.parent / cwd, env=env, capture_output=True, text=True, timeout=60)


def on_terminal(home: Path, *words: str) -> str:
    """Return what a terminal is given."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "HALO_HOME": str(home)}
    program = subprocess.Popen([*COMMAND, *words], cwd=home.parent / "w", env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                said += os.read(ours, 4096)
            except OSError:  # nobody holds the other end any more
                break
    os.close(ours)
    assert program.wait(30) == 0
    return said.decode()


def test_hits_are_printed(home: Path) -> None:
    """Each hit is two lines: when, what, session and title, then the text; what acts on a terminal is left out."""
    done = run(home, "天气")
    assert (done.returncode, done.stderr) == (0, "")
    heads, shown = done.stdout.splitlines()[::2], done.stdout.splitlines()[1::2]
    assert [head.split()[2] for head in heads] == ["user", "assistant"]
    assert shown == ["    今天天气很好 🎉", "    echo: 今天天气很好 🎉"]
    assert all(head.endswith("needle [2J in the title") for head in heads)


def test_json_is_one_object_a_line(home: Path) -> None:
    """With `--format json` each line is a hit as the route gives it, at most `--limit` of them."""
    done = run(home, "needle", "--format", "json", "-n", "2", "-w", "w", cwd=".")
    hits = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(hit["kind"], hit["seq"]) for hit in hits] == [("title", 0), ("user", 4)]
    assert hits[0]["snippet"][0] == {"text": "needle", "hit": True}


def test_a_terminal_sees_hits_in_bold(home: Path) -> None:
    """On a terminal what was looked for is bold, and nothing that somebody said acts."""
    said = on_terminal(home, "needle", "-n", "1")
    assert "\x1b[1mneedle\x1b[0m [2J in the title" in said and said.count("\x1b") == 2


def test_nothing_found_is_said_beside_the_output(home: Path) -> None:
    """When nothing is found the output is empty, and stderr says so."""
    done = run(home, "haystack")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Nothing found.\n")


def test_the_index_is_made_anew(home: Path) -> None:
    """`--rebuild` returns when the index is there."""
    done = run(home, "--rebuild")
    assert (done.returncode, done.stdout) == (0, "The index is made.\n"), done.stderr


@pytest.mark.parametrize("words", [(), ("needle", "--rebuild"), ("needle", "-n", "0"), ("needle", "--format", "xml")])
def test_wrong_usage_ends_with_2(home: Path, words: tuple[str, ...]) -> None:
    """What cannot be meant is wrong usage, told before anything happens."""
    done = run(home, *words)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("usage: halo sessions search ")


def test_what_is_no_query_ends_with_1(home: Path) -> None:
    """A query that names nothing to look for is one line that says why."""
    done = run(home, "--", "-needle")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "halo: q must name a word to find beside those that it leaves out.\n"


def test_the_plugin_is_as_its_contract_asks() -> None:
    """What `check_plugin` looks at is in order: metadata, hooks, imports and their time."""
    assert_plugin_ok("halo_search")
