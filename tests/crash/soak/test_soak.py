"""A server at ten turns a second: what it holds and how fast it is has come to rest, and does not rise with time.

A slice is a few seconds long, `tox -e soak` half an hour; `HALO_SOAK_SECONDS` says how long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from halo_kernel.testing.openai_server import Received, Script, ScriptedCall, ScriptedOpenAI

from ..served import Served
from .slopes import HEAD, Line
from .talkers import Talkers

SECONDS = float(os.environ.get("HALO_SOAK_SECONDS", "20"))
RATE, TALKERS = 10.0, 20
EVERY = max(0.5, SECONDS / 600)  # seconds between two samples
WARM_UP = SECONDS / 3  # which no slope looks at: caches fill
PLUGINS = "api,budget,openai,search,tools,workspace"
# By how much a figure may rise in a run, however long: what a slice rises by as it warms up is less.
LIMITS = {"memory (MB)": 24.0, "descriptors": 12.0, "threads": 6.0, "-wal (MB)": 8.0, "latency, median (ms)": 60.0}

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="processes are looked at in /proc")


@dataclass(frozen=True)
class Sample:
    """What a process and its files take, in the order of `LIMITS`."""

    at: float
    figures: Sequence[float]


def look(served: Served, folder: Path, latencies: list[float], at: float) -> Sample:
    """Look at a server, and forget the latencies that it had."""
    place = Path(f"/proc/{served.pid}")
    pages = int((place / "statm").read_text().split()[1])
    wal = sum(each.stat().st_size for each in folder.rglob("*-wal"))
    taken = median(latencies or [0.0]) * 1e3
    latencies.clear()
    held = len(os.listdir(place / "fd")), len(os.listdir(place / "task"))
    return Sample(at, (pages * os.sysconf("SC_PAGE_SIZE") / 1e6, *held, wal / 1e6, taken))


def respond(request: Received) -> Script:
    """Answer in pieces; look at the files first when the number of a question ends in 5."""
    if request.question.endswith("5") and not request.results:
        return Script(calls=(ScriptedCall(name="file_list", arguments={"path": "."}),))
    return Script(text="an answer of a few words " * 10, pieces=10, delay=0.01)


async def watch(talkers: Talkers, served: Served, folder: Path, model: ScriptedOpenAI) -> list[Sample]:
    """Look at the server while it is spoken to, and say each minute how far it is."""
    talking, began = asyncio.create_task(talkers.run(SECONDS)), time.monotonic()
    samples: list[Sample] = []
    while not talking.done():
        await asyncio.wait({talking}, timeout=EVERY)
        model.requests.clear()
        if talkers.latencies:
            samples.append(look(served, folder, talkers.latencies, time.monotonic() - began))
        if len(samples) % max(1, round(60 / EVERY)) == 1:
            shown = ", ".join(f"{name} {value:.0f}" for name, value in zip(LIMITS, samples[-1].figures, strict=True))
            print(f"{samples[-1].at:5.0f} of {SECONDS:.0f} s, {talkers.turns} turns: {shown}", flush=True)
    await talking
    return samples


@pytest.mark.timeout(SECONDS + 180)
async def test_nothing_rises_with_time(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Memory, descriptors, threads, the -wal files and the time of a turn have no slope that is a leak."""
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "notes.txt").write_text("a file to be listed")
    async with ScriptedOpenAI(responder=respond) as model:
        env = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-test", "OPENAI_MODEL": "scripted"}
        served = Served(tmp_path / "home", {**env, "HALO_PLUGINS": PLUGINS})
        request.addfinalizer(served.end)
        served.start()
        _, workspace = served.call("POST", "/api/workspaces", {"path": str(tmp_path / "w")})
        base = f"/api/workspaces/{workspace['id']}/sessions"
        talkers = Talkers(served, base, count=TALKERS, rate=RATE)
        samples = [each for each in await watch(talkers, served, tmp_path, model) if each.at >= WARM_UP]
        assert await asyncio.to_thread(served.stop) == 0
    times, columns = [each.at for each in samples], list(zip(*(each.figures for each in samples), strict=True))
    lines = [
        Line(name=name, times=times, values=values, seconds=SECONDS, limit=LIMITS[name])
        for name, values in zip(LIMITS, columns, strict=True)
    ]
    print(f"{talkers.turns} turns in {SECONDS:.0f} s, {talkers.late:.1f} s late at most, {len(samples)} samples")
    print("\n".join([HEAD, *(line.row for line in lines)]))
    assert talkers.turns == int(SECONDS * RATE)
    assert "Traceback" not in served.log.read_text()
    assert [line.row for line in lines if line.leaks] == [], HEAD
