"""From the start of a process to its readiness, and what it holds then: figures, never an assertion on them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from . import machine
from .programs import HALO, Program, environment, halo_env, module, running, serve
from .table import Row, print_table, print_title

ROUNDS = 5
SETTLE_SECONDS = 3.0
EMPTY = "an application with nothing in it: starlette, hypercorn, one apsw database in WAL mode"

pytestmark = pytest.mark.skipif(not machine.COUNTED, reason="processes are counted by /proc")


@dataclass(frozen=True, kw_only=True)
class Start:
    """What it took a program to be ready, in seconds: on the clock, and of the processor."""

    wall: float
    cpu: float


class Homes:
    """Folders for servers: new ones, or one that a server has used before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def new(self) -> Path:
        """Return a folder that no server has seen."""
        self._count += 1
        home = self._folder / f"home{self._count}"
        home.mkdir()
        return home

    def start(self, home: Path) -> tuple[Start, Start]:
        """Start Halo and then the empty application in a folder, each until it is ready."""
        with running(serve(), log=self._folder / "halo.log", env=halo_env(home)) as program:
            halo = _start(program)
        with running(empty(home), log=self._folder / "empty.log") as program:
            return halo, _start(program)


def _start(program: Program) -> Start:
    return Start(wall=program.seconds, cpu=machine.cpu_seconds(program.pid))


def empty(home: Path) -> list[str]:
    """Return the command of the empty application."""
    return [*module("empty"), "--database", str(home / "empty.db")]


def spent(command: Sequence[str]) -> float:
    """Return the seconds that a command takes to its end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, env=environment(), stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


@pytest.mark.timeout(120)
def test_start_to_ready(tmp_path: Path) -> None:
    """Print how long a server takes to be ready, on a new home and on a used one, and how long a command takes."""
    homes = Homes(tmp_path)
    used = homes.new()
    homes.start(used)
    fresh, again, version = [], [], []
    for _ in range(ROUNDS):
        fresh.append(homes.start(homes.new()))
        again.append(homes.start(used))
        version.append((spent([HALO, "--version"]), spent([sys.executable, "-c", "pass"])))
    print_title(f"Start to ready, `halo serve` with the standard plugins, median of {ROUNDS}")
    print_table(
        EMPTY,
        [
            _row("start to ready, new home", [(halo.wall, floor.wall) for halo, floor in fresh]),
            _row("start to ready, used home", [(halo.wall, floor.wall) for halo, floor in again]),
            _row("CPU of that, used home", [(halo.cpu, floor.cpu) for halo, floor in again]),
            _row("halo --version (floor: python -c pass)", version),
        ],
    )


def _row(name: str, pairs: Sequence[tuple[float, float]]) -> Row:
    return Row(
        name=name,
        figure=median(figure for figure, _ in pairs) * 1e3,
        floor=median(floor for _, floor in pairs) * 1e3,
        unit="ms",
    )


@pytest.mark.timeout(60)
def test_idle_memory(tmp_path: Path) -> None:
    """Print what a server holds that nobody has asked anything yet."""
    homes = Homes(tmp_path)
    home = homes.new()
    with (
        running(serve(), log=tmp_path / "halo.log", env=halo_env(home)) as halo,
        running(empty(home), log=tmp_path / "empty.log") as floor,
    ):
        rows = [_memory("resident, once ready", halo.pid, floor.pid)]
        time.sleep(SETTLE_SECONDS)
        rows.append(_memory(f"resident, {SETTLE_SECONDS:g} s later", halo.pid, floor.pid))
    print_title("Idle memory, `halo serve` with the standard plugins")
    print_table(EMPTY, rows)


def _memory(name: str, halo: int, floor: int) -> Row:
    figure, under = machine.resident_bytes(halo), machine.resident_bytes(floor)
    return Row(name=name, figure=figure / 2**20, floor=under / 2**20, unit="MiB")
